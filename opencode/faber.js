// faber in OpenCode: passes what happens in a session on to bin/faber, and what it answers to the model.
// A faber that fails, hangs or is missing is logged and changes nothing else.

import { spawn } from "node:child_process"
import { existsSync, readFileSync, readdirSync, realpathSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const ROOT = dirname(dirname(realpathSync(fileURLToPath(import.meta.url))))
const PATIENCE = 5_000 // milliseconds for one answer

export const Faber = async ({ client, directory }) => {
  const parents = new Map() // sessions of subagents, by their own id
  const briefs = new Map() // what each session was told of its run
  const granted = new Map() // the command that faber allows, by the call of the tool
  const working = new Set() // sessions in which faber was at work

  const owner = (session) => (parents.has(session) ? owner(parents.get(session)) : session)
  const log = (message) =>
    client.app.log({ body: { service: "faber", level: "warn", message: String(message) } }).catch(() => {})

  // What a hook of faber prints; empty where it fails.
  const hook = (event, session, given) =>
    new Promise((resolve) => {
      const env = { ...process.env, CLAUDE_PLUGIN_ROOT: ROOT }
      const program = spawn(join(ROOT, "bin", "faber"), ["hook", event], { cwd: directory, detached: true, env })
      const said = { stdout: "", stderr: "" }
      const end = (why) => {
        clearTimeout(timer)
        if (why || said.stderr) log(`faber hook ${event}: ${why || said.stderr.slice(0, 500)}`)
        resolve(why ? "" : said.stdout)
      }
      const timer = setTimeout(() => {
        end(`no answer within ${PATIENCE} ms`)
        try {
          process.kill(-program.pid, "SIGKILL")
        } catch {}
      }, PATIENCE)
      for (const name of ["stdout", "stderr"])
        program[name].setEncoding("utf8").on("data", (data) => (said[name] += data))
      program.on("error", end).on("close", (status) => end(status ? `it ended with ${status}` : ""))
      program.stdin.on("error", () => {})
      program.stdin.end(JSON.stringify({ session_id: session, cwd: directory, hook_event_name: event, ...given }))
    })

  const answer = async (...call) => {
    const said = await hook(...call)
    try {
      return said ? JSON.parse(said).hookSpecificOutput : {}
    } catch (problem) {
      log(`faber hook ${call[0]}: ${problem}`)
      return {}
    }
  }

  // Words in a tag that they cannot close.
  const tagged = (tag, words) => `<${tag}>\n${words.replaceAll(`</${tag}`, `<\\/${tag}`)}\n</${tag}>`

  // A handler whose failure is logged: OpenCode would end the turn.
  const safe = (handler) => async (input, output) => {
    try {
      await handler(input, output)
    } catch (problem) {
      log(problem)
    }
  }

  return {
    // What a person types: `/faber:run …` and the other skills.
    config: safe((config) => {
      config.command ??= {}
      for (const name of readdirSync(join(ROOT, "skills"))) {
        if (!existsSync(join(ROOT, "skills", name, "SKILL.md"))) continue // what a file manager leaves there
        const page = readFileSync(join(ROOT, "skills", name, "SKILL.md"), "utf8")
        const [, front, template] = page.match(/^---\n(.*?)\n---\n(.*)$/s)
        const description = front.match(/^description: *(.*)$/m)?.[1]
        config.command[`faber:${name}`] ??= {
          description,
          template: template.replaceAll("${CLAUDE_PLUGIN_ROOT}", () => ROOT),
        }
      }
    }),

    event: safe(async ({ event: { type, properties } }) => {
      if (type === "session.created" && properties.info.parentID) parents.set(properties.info.id, properties.info.parentID)
      const asked = type === "permission.asked" && properties.permission === "bash" && properties.metadata?.command
      if (asked && asked === granted.get(properties.tool?.callID))
        await client.postSessionIdPermissionsPermissionId({
          path: { id: properties.sessionID, permissionID: properties.id },
          body: { response: "once" },
        })
    }),

    // A later prompt is told what others did meanwhile, such as a person who answered in a terminal.
    "chat.message": safe(async ({ sessionID }, { message, parts }) => {
      if (!briefs.has(sessionID)) return
      const { additionalContext } = await answer("session-start", sessionID, { source: "resume" })
      if (!additionalContext) return
      const text = tagged("system-reminder", additionalContext)
      parts.push({ id: `${parts.at(-1).id}z`, sessionID, messageID: message.id, type: "text", synthetic: true, text })
    }),

    "experimental.chat.system.transform": safe(async ({ sessionID }, { system }) => {
      if (!sessionID || parents.has(sessionID)) return
      if (!briefs.has(sessionID)) briefs.set(sessionID, answer("session-start", sessionID, { source: "startup" }))
      const { additionalContext } = await briefs.get(sessionID)
      if (!additionalContext) return
      working.add(sessionID)
      system.push(tagged("faber", additionalContext))
    }),

    // The summary keeps what faber says, and the next turn gets a new brief.
    "experimental.session.compacting": safe(async ({ sessionID }, { context }) => {
      const kept = await hook("pre-compact", sessionID)
      if (kept) context.push(kept)
      briefs.delete(sessionID)
    }),

    "shell.env": safe(({ sessionID }, { env }) => {
      if (sessionID) env.OPENCODE_SESSION_ID = owner(sessionID)
    }),

    "tool.execute.before": safe(async ({ tool, sessionID, callID }, { args }) => {
      if (tool !== "bash" || !args.command.includes("faber")) return
      const given = { tool_name: "Bash", tool_input: { command: args.command } }
      const { permissionDecision, updatedInput } = await answer("pre-tool-use", owner(sessionID), given)
      if (permissionDecision !== "allow") return
      if (updatedInput) args.command = updatedInput.command
      granted.set(callID, args.command)
      working.add(owner(sessionID))
    }),

    dispose: safe(async () => {
      await Promise.all([...working].map((session) => hook("session-end", session, { reason: "exit" })))
    }),
  }
}
