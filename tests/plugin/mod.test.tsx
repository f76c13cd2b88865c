import { expect, mock, test } from 'claude-code/testing'

const RUN = { run_id: 'demo/one/7', waits_for: null, paused: null }
const ASKED = { ...RUN, waits_for: { request_id: 'fr-1', prompt: 'Is the specification right?' } }
const PAUSED = { ...RUN, paused: { message: 'The limit is reached', waiting_until: null } }
const PANE = {
  plugin: 'faber',
  component: 'Pane',
  requestId: 'faber-runs',
  props: {
    title: 'faber: open runs',
    isFocused: false,
    bodyColumns: 80,
    placement: 'dock',
    scroll: { offset: 0, bodyRows: 20 },
    view: {},
  },
} as const

/** Stands for the engine and for bin/faber, which answers with `runs`; what the person saw. */
function engine(on: any, answer: { runs: unknown[] }) {
  const seen = { lines: [] as unknown[], toasts: [] as string[], calls: [] as string[], panes: [] as string[] }
  on('process.hookEnv', () => ({ value: { CLAUDE_CODE_SESSION_ID: 's' } }))
  on('process.run', (_: unknown, e: any) => {
    const words = e.argv.slice(1).join(' ')
    seen.calls.push(words)
    const line = answer.runs.length ? '▶ build:test 4/11\n' : 'no open run\n'
    const board = 'demo/one/7\n  in_progress · build:test\n'
    const stdout = words.endsWith('--line') ? line : words.endsWith('json') ? JSON.stringify(answer) : board
    return { value: { exitCode: 0, stdout, stderr: '', isStdoutTruncated: false, isStderrTruncated: false } }
  })
  on('ui.status', (_: unknown, e: any) => (seen.lines.push(e.text), { value: undefined }))
  on('ui.toast', (_: unknown, e: any) => (seen.toasts.push(e.text), { value: undefined }))
  on('ui.open', (_: unknown, e: any) => (seen.panes.push(e.id), { value: { isPlaced: true } }))
  on('session.start', (_: unknown, e: any) => ({ cwd: e.cwd }))
  on('turn.complete', (_: unknown, e: any) => ({ text: e.answer }))
  return seen
}

const TYPED = { origin: { kind: 'composer' }, presentation: { isFullscreen: true, columns: 80 } } as const
const START = { cwd: '/', surface: 'terminal', isInteractive: true } as const

test('the line shows what faber prints, and a toast what is new', async ($, on) => {
  const clock = mock.clock(on)
  const answer = { runs: [RUN] as unknown[] }
  const seen = engine(on, answer)
  await $.session.start(START)
  await clock.advance(20_000)
  expect(seen.lines.at(-1)).toBe('▶ build:test 4/11')
  for (const runs of [[ASKED], [ASKED], [PAUSED], [RUN]]) {
    answer.runs = runs
    await clock.advance(20_000)
  }
  expect(seen.toasts).toEqual([
    'demo/one/7 asks: Is the specification right?',
    'demo/one/7 is paused: The limit is reached',
    'demo/one/7 continues after its pause',
  ])
})

test('without an open run the line is empty and nothing is asked again', async ($, on) => {
  const clock = mock.clock(on)
  const seen = engine(on, { runs: [] })
  await $.session.start(START)
  await clock.advance(60_000)
  expect(seen.lines).toEqual([undefined])
  expect(seen.calls).toEqual(['status --line'])
})

test('a turn is followed by a look at the runs, but not without a terminal', async ($, on) => {
  const clock = mock.clock(on)
  const seen = engine(on, { runs: [] })
  for (const isInteractive of [false, true]) {
    await $.session.start({ ...START, isInteractive })
    await clock.advance(1)
    const before = seen.calls.length
    await $.turn.complete({ answer: 'done' } as any)
    await clock.advance(1)
    expect(seen.calls.slice(before)).toEqual(isInteractive ? ['status --line'] : [])
  }
})

test('status is answered with what faber prints, its arguments passed on', async ($, on) => {
  const seen = engine(on, { runs: [RUN] })
  const { text } = await $.command.run({ command: 'faber:status', args: 'demo/one/7', ...TYPED })
  expect(text).toBe('demo/one/7\n  in_progress · build:test')
  expect(seen.calls).toEqual(['status demo/one/7'])
})

test('watch opens a pane with the board', async ($, on) => {
  const seen = engine(on, { runs: [RUN] })
  await $.command.run({ command: 'faber:watch', args: '', ...TYPED })
  expect(seen.panes).toEqual(['faber-runs'])
  const ui = await $.ui.mount({ ...PANE, surface: 'terminal' })
  expect((await ui.find({ type: 'Text', text: /in_progress/ }))?.text).toBe('  in_progress · build:test')
  await ui.unmount()
})

test('a pane that was open before the module was loaded again fills', async ($, on) => {
  engine(on, { runs: [RUN] })
  const ui = await $.ui.mount({ ...PANE, surface: 'terminal' })
  await ui.find({ type: 'Text' })
  expect((await ui.find({ type: 'Text', text: /in_progress/ }))?.text).toBe('  in_progress · build:test')
  await ui.unmount()
})
