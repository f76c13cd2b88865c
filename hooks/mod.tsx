// What a person sees of faber inside the client. It calls bin/faber and draws what that prints: no figure is made here.
import type { EngineInterface, Register } from 'claude-code'

type Row = {
  run_id: string
  waits_for: { request_id: string; prompt: string } | null
  paused: { message: string; waiting_until: string | null } | null
}

const PANE = 'faber-runs'
const TITLE = 'faber: open runs'
const EVERY = 20_000 // ms, while a run is open
const NONE = 'no open run'
const FAILED = 'faber failed; `faber doctor` in a terminal says more.'

/** What `faber …words` prints; undefined where it fails. */
async function faber($: EngineInterface, words: string[]): Promise<string | undefined> {
  try {
    const env = await $.process.hookEnv()
    const done = await $.process.run([`${$.plugin.root}/bin/faber`, ...words], { env, timeoutMs: 10_000 })
    return done.exitCode === 0 ? done.stdout.trimEnd() : undefined
  } catch {
    return undefined
  }
}

/** What changed between two looks at the runs that a person should notice. */
function news(before: Map<string, Row>, rows: Row[]): string[] {
  return rows.flatMap(row => {
    const known = before.get(row.run_id)
    const asked = row.waits_for && row.waits_for.request_id !== known?.waits_for?.request_id
    return [
      ...(asked ? [`${row.run_id} asks: ${row.waits_for?.prompt}`] : []),
      ...(row.paused && !known?.paused ? [`${row.run_id} is paused: ${row.paused.message}`] : []),
      ...(known?.paused && !row.paused ? [`${row.run_id} continues after its pause`] : []),
    ]
  })
}

// One session has one instance of this module.
let board = ''
let known: Map<string, Row> | undefined // undefined until the first look, which is no news
let looking = false
let active = false
let shown = false
let unattended = false // no terminal: nothing that could be drawn

/** Ask faber again: the status line, a toast for each piece of news, and the pane where it is open. */
async function look($: EngineInterface): Promise<void> {
  if (looking) return
  looking = true
  try {
    const line = await faber($, ['status', '--line'])
    active = line !== undefined && line !== NONE
    $.ui.status(active ? line : undefined)
    if (!active && !known?.size && !shown) return
    const listed = await faber($, ['status', '--format', 'json'])
    if (listed === undefined) return
    const rows: Row[] = JSON.parse(listed).runs
    for (const text of known ? news(known, rows) : []) $.ui.toast(text, { timeoutMs: 10_000 })
    known = new Map(rows.map(row => [row.run_id, row]))
    if (shown) await draw($)
  } finally {
    looking = false
  }
}

async function draw($: EngineInterface): Promise<void> {
  board = (await faber($, ['status'])) ?? FAILED
  $.ui.invalidate('ui.render')
}

export const register: Register = on => {
  on('session.start', async ($, e, next) => {
    const started = await next(e)
    unattended = !e.isInteractive
    if (e.isInteractive) {
      void look($)
      $.clock.every(EVERY, () => {
        if (active || shown) void look($)
      })
    }
    return started
  })

  on('turn.complete', async ($, e, next) => {
    const done = await next(e)
    if (!unattended) void look($)
    return done
  })

  on('command.run', { command: 'faber:status' }, async ($, e) => {
    const words = e.args.split(/\s+/).filter(Boolean)
    return { text: (await faber($, ['status', ...words])) ?? FAILED }
  })

  on('command.run', { command: 'faber:watch' }, async $ => {
    shown = true
    await draw($)
    await $.ui.open({ id: PANE, title: TITLE, closeOnEscape: true })
    return { text: 'The board of the open runs is in the pane.' }
  })

  on('ui.close', { id: PANE }, ($, e, next) => {
    shown = false
    return next(e)
  })

  on('ui.render', { component: 'Pane', requestId: PANE }, ($, e) => {
    const { Box, Text } = $.ui.resolve(e)
    if (!board) {
      shown = true // the module was loaded again under an open pane
      void draw($)
    }
    return (
      <Box flexDirection="column">
        {board.split('\n').map(line => (
          <Text>{line || ' '}</Text>
        ))}
      </Box>
    )
  })
}
