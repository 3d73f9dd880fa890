// Milliseconds of create + run + kill: one after the other, or many at once. Prints one JSON object.
import { Sandbox } from 'e2b'

const [mode, rounds, width] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] ?? 1)]

async function once() {
  const begin = performance.now()
  const sandbox = await Sandbox.create()
  const { stdout } = await sandbox.commands.run('echo hi')
  if (stdout !== 'hi\n') throw new Error(`it says ${JSON.stringify(stdout)}`)
  await sandbox.kill()
  return performance.now() - begin
}

async function streams() {
  const sandboxes = []
  for (let i = 0; i < rounds; ++i) sandboxes.push(await Sandbox.create({ timeoutMs: 600_000 }))
  const echoes = await Promise.all(
    sandboxes.map(async (sandbox) => {
      const waiting = []
      const command = await sandbox.commands.run('while read line; do echo "$line"; done', {
        background: true,
        stdin: true,
        timeoutMs: 0,
        onStdout: () => waiting.shift()?.(),
      })
      return async () => {
        const begin = performance.now()
        const heard = new Promise((resolve) => waiting.push(resolve))
        await sandbox.commands.sendStdin(command.pid, 'ping\n')
        await heard
        return performance.now() - begin
      }
    }),
  )
  console.log(JSON.stringify({ ready: rounds }))
  await new Promise((resolve) => process.stdin.once('data', resolve))
  console.log(JSON.stringify({ echo_ms: await Promise.all(echoes.map((echo) => echo())) }))
  await Promise.all(sandboxes.map((sandbox) => sandbox.kill()))
  process.exit(0)
}

if (mode === 'streams') {
  await streams()
} else {
  const times = []
  for (let i = 0; i < rounds; ++i) {
    if (mode === 'sequential') times.push(await once())
    else times.push(...(await Promise.all(Array.from({ length: width }, once))))
  }
  console.log(JSON.stringify({ ms: times }))
}
