import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { Sandbox, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox()
const run = (line, options) => box.sandbox.commands.run(line, options)

test('output, error output and exit code', async () => {
  const result = await run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
  await assert.rejects(run('echo gone >&2; exit 7'), (error) => error.exitCode === 7 && error.stderr === 'gone\n')
})

test('directory, variables and user', async () => {
  const result = await run('pwd; echo $X; id -un; echo $HOME', { cwd: '/tmp', envs: { X: 'ä' } })
  assert.equal(result.stdout, '/tmp\nä\nuser\n/home/user\n')
  assert.equal((await run('pwd')).stdout, '/home/user\n')
  assert.equal((await run('id -u', { user: 'root' })).stdout, '0\n')
  await assert.rejects(run('pwd', { cwd: '/no/such/place' }), /does not exist/)
})

test('output arrives while the command runs', async () => {
  const seen = []
  await run('for i in 1 2 3; do echo $i; sleep 0.1; done', { onStdout: (text) => seen.push(text) })
  assert.equal(seen.join(''), '1\n2\n3\n')
  assert.ok(seen.length > 1)
})

test('a megabyte of output is whole', async () => {
  const { stdout } = await run('head -c 1000000 /dev/zero | tr "\\0" x')
  assert.equal(stdout.length, 1_000_000)
})

test('a hundred megabytes of output are whole, byte by byte', async () => {
  const line = 'seq 20000000 | head -c 100000000'
  const { stdout } = await run(line, { timeoutMs: 0 })
  const sum = await run(`${line} | sha256sum`, { timeoutMs: 0 })
  assert.equal(stdout.length, 100_000_000)
  assert.equal(createHash('sha256').update(stdout).digest('hex'), sum.stdout.slice(0, 64))
})

test('a command goes on when nobody reads its output', async () => {
  const command = await run('head -c 50000000 /dev/zero; touch /tmp/through', { background: true, timeoutMs: 0 })
  await command.disconnect()
  await until(() => box.sandbox.files.exists('/tmp/through'), 'its end', 60)
})

test('input is written, and its end is told', async () => {
  const command = await run('cat; echo end', { background: true, stdin: true })
  await box.sandbox.commands.sendStdin(command.pid, 'first\n')
  await box.sandbox.commands.sendStdin(command.pid, 'second\n')
  await box.sandbox.commands.closeStdin(command.pid)
  assert.equal((await command.wait()).stdout, 'first\nsecond\nend\n')
})

test('a background command is listed, found again and killed', async () => {
  const command = await run('sleep 300', { background: true, envs: { LISTED: '1' } })
  const listed = (await box.sandbox.commands.list()).find((each) => each.pid === command.pid)
  assert.equal(listed.cmd, '/bin/bash')
  assert.deepEqual(listed.args, ['-l', '-c', 'sleep 300'])
  assert.equal(listed.envs.LISTED, '1')
  const again = await box.sandbox.commands.connect(command.pid)
  assert.equal(again.pid, command.pid)
  assert.equal(await box.sandbox.commands.kill(command.pid), true)
  await assert.rejects(command.wait(), /signal: killed/)
  await assert.rejects(again.wait(), /signal: killed/)
  assert.equal(await box.sandbox.commands.kill(command.pid), false)
  assert.ok(!(await box.sandbox.commands.list()).some((each) => each.pid === command.pid))
})

test('whoever connects reads on', async () => {
  const command = await run('while :; do echo tick; sleep 0.05; done', { background: true })
  await command.disconnect()
  let heard = ''
  const again = await box.sandbox.commands.connect(command.pid, { onStdout: (text) => void (heard += text) })
  await until(() => heard.includes('tick\ntick'), 'output after connecting again')
  await again.kill()
})

test('a command ends at its deadline', async () => {
  await assert.rejects(run('sleep 60', { timeoutMs: 500 }), { name: 'TimeoutError' })
  await until(async () => (await run('pgrep -x sleep || echo none')).stdout === 'none\n', 'nothing is left of it')
})

test('a terminal echoes, knows its size and changes it', async () => {
  let shown = ''
  const terminal = await box.sandbox.pty.create({
    cols: 90,
    rows: 20,
    onData: (bytes) => void (shown += Buffer.from(bytes).toString()),
    timeoutMs: 60_000,
  })
  const type = (text) => box.sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
  await type('stty size\n')
  await until(() => shown.includes('20 90'), 'its size')
  await box.sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await type('stty size\n')
  await until(() => shown.includes('30 100'), 'its new size')
  await type('exit 3\n')
  await assert.rejects(terminal.wait(), (error) => error.exitCode === 3)
})

test('python is there by the name that most people call it', async () => {
  assert.match((await run('python --version')).stdout, /^Python 3/)
  assert.equal((await run('python3 -c "import sys; print(1)"')).stdout, '1\n')
})

test('more words than a command can have are refused as such', async () => {
  await assert.rejects(run('true', { envs: { LONG: 'x'.repeat(200_000) } }), { name: 'InvalidArgumentError' })
})

test('input that nobody reads keeps nobody else waiting', async () => {
  const terminal = await box.sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 60_000 })
  const type = (text) => box.sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
  await type('stty raw -echo; sleep 1000\n')
  const stuck = type('x'.repeat(1 << 20)).then(() => 'taken', () => 'refused')
  assert.equal((await run('echo others go on')).stdout, 'others go on\n')
  assert.equal(await box.sandbox.pty.kill(terminal.pid), true)
  assert.match(await stuck, /taken|refused/)
  await assert.rejects(terminal.wait())
})

test('fifty commands at once', async () => {
  const results = await Promise.all(Array.from({ length: 50 }, (_, n) => run(`echo ${n}`)))
  results.forEach((result, n) => assert.equal(result.stdout, `${n}\n`))
})

test('killed while it streams: the stream is cut and the SDK says why', async () => {
  const sandbox = await Sandbox.create()
  const command = await sandbox.commands.run('sleep 300', { background: true, timeoutMs: 0 })
  const end = command.wait()
  end.catch(() => {})
  await sandbox.kill()
  await assert.rejects(end, /killed|end of life|timeout|terminated/i)
})
