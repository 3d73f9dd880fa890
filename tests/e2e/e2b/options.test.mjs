// Options and calls that the other files leave out, one by one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { E2B, FileNotFoundError, InvalidArgumentError, Template, TimeoutError, Volume } from 'e2b'
import { Sandbox, api, collect, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox()
const run = (line, options) => box.sandbox.commands.run(line, options)

test('metadata of a file is kept with it, and replaced by the next write', async () => {
  const { files } = box.sandbox
  const written = await files.write('/tmp/meta', 'x', { metadata: { Author: 'me', 'k-2': 'two words' } })
  assert.deepEqual(written.metadata, { author: 'me', 'k-2': 'two words' })
  assert.deepEqual((await files.getInfo('/tmp/meta')).metadata, { author: 'me', 'k-2': 'two words' })
  const listed = (await files.list('/tmp')).find((each) => each.name === 'meta')
  assert.deepEqual(listed.metadata, { author: 'me', 'k-2': 'two words' })
  assert.deepEqual((await files.rename('/tmp/meta', '/tmp/meta2')).metadata, { author: 'me', 'k-2': 'two words' })
  await files.write('/tmp/meta2', 'y', { metadata: { other: '1' }, useOctetStream: true })
  assert.deepEqual((await files.getInfo('/tmp/meta2')).metadata, { other: '1' })
  await files.write('/tmp/meta2', 'z')
  assert.equal((await files.getInfo('/tmp/meta2')).metadata, undefined)
  await assert.rejects(files.write('/tmp/meta2', 'z', { metadata: { 'bad key': '1' } }), InvalidArgumentError)
  await assert.rejects(files.write('/tmp/meta2', 'z', { metadata: { k: 'a\nb' } }), InvalidArgumentError)
})

test('uploads and downloads of every kind', async () => {
  const { files } = box.sandbox
  const text = 'line\n'.repeat(50_000)
  await files.write('/tmp/zipped', text, { gzip: true })
  assert.equal(await files.read('/tmp/zipped'), text)
  assert.equal(await files.read('/tmp/zipped', { gzip: true }), text)
  await files.write('/tmp/octets', text, { useOctetStream: true })
  assert.equal((await files.getInfo('/tmp/octets')).size, text.length)
  await files.write('/tmp/blob', new Blob([text]))
  const blob = await files.read('/tmp/blob', { format: 'blob' })
  assert.equal(await blob.text(), text)
  assert.equal(Buffer.from(await files.read('/tmp/blob', { format: 'bytes' })).toString(), text)
  for (const format of ['text', 'bytes', 'blob', 'stream']) {
    await files.write('/tmp/nothing', '')
    const read = await files.read('/tmp/nothing', { format })
    const size = format === 'text' ? read.length : format === 'bytes' ? read.length : format === 'blob' ? read.size : 0
    assert.equal(size, 0)
  }
  assert.deepEqual(await files.write([]), [])
  const several = await files.writeFiles([
    { path: '/tmp/s1', data: 'one' },
    { path: 's2', data: new Blob(['two']) },
  ])
  assert.deepEqual(several.map((each) => each.path), ['/tmp/s1', '/home/user/s2'])
  await files.write('/tmp/s1', 'longer than before')
  await files.write('/tmp/s1', 'short')
  assert.equal(await files.read('/tmp/s1'), 'short')
})

test('files of another user, and paths of the home', async () => {
  const { files } = box.sandbox
  await files.write('rooted', 'x', { user: 'root' })
  const info = await files.getInfo('/root/rooted', { user: 'root' })
  assert.deepEqual([info.owner, info.path], ['root', '/root/rooted'])
  assert.equal(await files.exists('/root/rooted', { user: 'root' }), true)
  await files.write('~/at-home', 'x')
  assert.equal((await files.getInfo('at-home')).path, '/home/user/at-home')
  await assert.rejects(files.write('~bob/x', 'x'), InvalidArgumentError)
  await assert.rejects(files.read('x', { user: 'nobody-here' }), /user|401/i)
  await files.makeDir('/tmp/ours/deep')
  assert.equal((await files.getInfo('/tmp/ours/deep')).owner, 'user')
  await assert.rejects(files.makeDir('/tmp/s1'), InvalidArgumentError)
  await assert.rejects(files.rename('/no/such', '/tmp/x'), FileNotFoundError)
  await assert.rejects(files.getInfo('/no/such'), FileNotFoundError)
  await assert.rejects(files.list('/tmp', { depth: 0 }), InvalidArgumentError)
  await assert.rejects(files.watchDir('/no/such', () => {}), FileNotFoundError)
  await assert.rejects(files.watchDir('/tmp/s1', () => {}), InvalidArgumentError)
})

test('what a file is called decides nothing', async () => {
  const { files } = box.sandbox
  for (const name of ['find user', 'No space left on device', 'enter directory']) {
    assert.equal(await files.exists(`/tmp/${name}`), false)
    await assert.rejects(files.read(`/tmp/${name}`), { name: 'FileNotFoundError' })
    await assert.rejects(files.list(`/tmp/${name}`), { name: 'FileNotFoundError' })
    await assert.rejects(files.rename(`/tmp/${name}`, '/tmp/x'), { name: 'FileNotFoundError' })
  }
})

test('files are joined into one', async () => {
  const { files } = box.sandbox
  const compose = (body, headers = {}) =>
    fetch(`${process.env.E2B_SANDBOX_URL}/files/compose`, {
      method: 'POST',
      headers: {
        'E2b-Sandbox-Id': box.sandbox.sandboxId,
        'E2b-Sandbox-Port': '49983',
        'X-Access-Token': box.sandbox.envdAccessToken ?? '',
        ...headers,
      },
      body: JSON.stringify(body),
    })
  const parts = ['a'.repeat(300_000), '', 'end']
  for (const [n, part] of parts.entries()) await files.write(`parts/${n}`, part)
  const source_paths = ['parts/0', 'parts/1', '/home/user/parts/2']
  assert.equal((await compose({ source_paths, destination: 'whole/file' }, { 'X-Access-Token': 'wrong' })).status, 401)
  assert.equal((await compose({ source_paths: [...source_paths, 'none'], destination: 'whole/file' })).status, 404)
  const made = await compose({ source_paths, destination: 'whole/file', username: 'user' })
  assert.deepEqual([made.status, await made.json()], [200, { name: 'file', path: '/home/user/whole/file', type: 'file' }])
  assert.equal(await files.read('whole/file'), parts.join(''))
  const info = await files.getInfo('whole/file')
  assert.deepEqual([info.owner, info.permissions, info.size], ['user', '-rw-r--r--', 300_003])
  assert.deepEqual(await files.list('parts'), [])
})

test('permissions tell of what is special', async () => {
  await run('mkdir -p /tmp/sticky; chmod 1777 /tmp/sticky; touch /tmp/setuid; chmod 4755 /tmp/setuid')
  assert.equal((await box.sandbox.files.getInfo('/tmp/sticky')).permissions, 'dtrwxrwxrwx')
  assert.equal((await box.sandbox.files.getInfo('/tmp/setuid')).permissions, 'urwxr-xr-x')
})

test('a watch tells of entries, renames and modes, ends at its time, and says so', async () => {
  const { files } = box.sandbox
  await files.makeDir('/tmp/seen')
  const events = []
  let end
  const over = new Promise((resolve) => (end = resolve))
  const watch = await files.watchDir('/tmp/seen', (event) => void events.push(event), {
    includeEntry: true,
    timeoutMs: 0,
    onExit: end,
  })
  await files.write('/tmp/seen/a', 'abc')
  await until(() => events.some((each) => each.type === 'write' && each.entry?.size === 3), 'its size')
  assert.equal(events[0].entry.path, '/tmp/seen/a')
  await run('chmod 600 /tmp/seen/a; mv /tmp/seen/a /tmp/seen/b')
  await until(() => events.some((each) => each.type === 'chmod' && each.name === 'a'), 'its mode')
  await until(() => events.some((each) => each.type === 'rename' && each.name === 'a'), 'its old name')
  await until(() => events.some((each) => each.name === 'b'), 'its new name')
  await watch.stop()
  await over
  let error
  const short = await files.watchDir('/tmp/seen', () => {}, { timeoutMs: 500, onExit: (e) => void (error = e ?? true) })
  await until(() => error, 'the end of the watch')
  await short.stop()
})

test('processes: tags of users, environment, working directory, standard input off', async () => {
  const off = await run('cat; echo end', { stdin: false })
  assert.equal(off.stdout, 'end\n')
  const open = await run('cat', { background: true })
  await assert.rejects(box.sandbox.commands.sendStdin(open.pid, 'x'))
  await open.kill().catch(() => {})
  const told = await run('echo -n "$A|$B|$PWD"', { envs: { A: '1 2', B: '"q"' }, cwd: '/tmp', user: 'root' })
  assert.equal(told.stdout, '1 2|"q"|/tmp')
  await assert.rejects(run('true', { user: 'nobody-here' }), /user|unauthenticated|not/i)
  await assert.rejects(box.sandbox.commands.connect(999_999), /not found|999999/i)
  await assert.rejects(box.sandbox.commands.sendStdin(999_999, 'x'))
  const bytes = await run("printf '\\xc3\\xa4'; sleep 0.1; printf '\\xe2\\x82'; sleep 0.1; printf '\\xac'")
  assert.equal(bytes.stdout, 'ä€')
  const cut = new AbortController()
  const waiting = run('sleep 100', { signal: cut.signal })
  setTimeout(() => cut.abort(), 300)
  await assert.rejects(waiting)
})

test('a command without a deadline outlives its caller; one with a deadline does not', async () => {
  const bounded = await run('sleep 100', { background: true, timeoutMs: 1_000 })
  await bounded.disconnect()
  await until(async () => !(await box.sandbox.commands.list()).some((each) => each.pid === bounded.pid), 'its deadline')
  const left = await run('sleep 100', { background: true, timeoutMs: 0 })
  await left.disconnect()
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  assert.ok((await box.sandbox.commands.list()).some((each) => each.pid === left.pid))
  assert.equal(await box.sandbox.commands.kill(left.pid), true)
})

test('one that has ended is found for a while', async () => {
  const command = await run('exit 4', { background: true })
  await command.wait().catch(() => {})
  const again = await box.sandbox.commands.connect(command.pid)
  await assert.rejects(again.wait(), (error) => error.exitCode === 4)
})

test('terminals: found again, with directory and variables, killed', async () => {
  let shown = ''
  const take = (bytes) => void (shown += Buffer.from(bytes).toString())
  const { pty } = box.sandbox
  const terminal = await pty.create({ cols: 80, rows: 24, onData: take, cwd: '/tmp', envs: { MARK: 'set' }, user: 'root' })
  await pty.sendInput(terminal.pid, new TextEncoder().encode('echo "<$MARK-$PWD-$(id -u)-$TERM>"\n'))
  await until(() => shown.includes('<set-/tmp-0-xterm-256color>'), 'what it knows')
  await terminal.disconnect()
  let later = ''
  const again = await pty.connect(terminal.pid, { onData: (bytes) => void (later += Buffer.from(bytes).toString()) })
  await pty.sendInput(terminal.pid, new TextEncoder().encode('echo again-$((40+2))\n'))
  await until(() => later.includes('again-42'), 'what it says later')
  assert.equal(await pty.kill(terminal.pid), true)
  await assert.rejects(again.wait())
  assert.equal(await pty.kill(terminal.pid), false)
})

test('git works by commands', async () => {
  const { git } = box.sandbox
  await git.init('/home/user/repo', { initialBranch: 'main' })
  await git.configureUser('A', 'a@example.com', { scope: 'local', path: '/home/user/repo' })
  assert.equal((await run('git -C /home/user/repo config user.email')).stdout, 'a@example.com\n')
  await box.sandbox.files.write('/home/user/repo/a', '1')
  assert.equal((await git.status('/home/user/repo')).fileStatus.length, 1)
  await git.add('/home/user/repo')
  await git.commit('/home/user/repo', 'first')
  await git.createBranch('/home/user/repo', 'side')
  assert.ok((await git.branches('/home/user/repo')).branches.includes('side'))
})

test('addresses: of ports, of files, of the tools', async () => {
  assert.equal(box.sandbox.getHost(3000), `3000-${box.sandbox.sandboxId}.sbx.test`)
  assert.match(box.sandbox.getMcpUrl(), /^https:\/\/50005-/)
  await box.sandbox.files.write('/tmp/dl', 'by address')
  const url = await box.sandbox.downloadUrl('/tmp/dl')
  assert.equal(await (await fetch(url)).text(), 'by address')
  const asRoot = await box.sandbox.downloadUrl('rooted', { user: 'root' })
  assert.equal(await (await fetch(asRoot)).text(), 'x')
  const upload = await box.sandbox.uploadUrl()
  const form = new FormData()
  form.append('file', new Blob(['anywhere']), '/tmp/anywhere')
  assert.equal((await fetch(upload, { method: 'POST', body: form })).status, 200)
  assert.equal(await box.sandbox.files.read('/tmp/anywhere'), 'anywhere')
  const over = await box.sandbox.downloadUrl('/tmp/dl', { useSignatureExpiration: -1_000 })
  const expired = await fetch(over)
  assert.equal(expired.status, 401)
  assert.match((await expired.json()).message, /signature is already expired/)
})

test('lifetimes by static calls, and what is shown of them', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 60_000, lifecycle: { onTimeout: 'pause' }, metadata: { a: 'b' } })
  const { sandboxId } = sandbox
  try {
    const before = await Sandbox.getInfo(sandboxId)
    assert.deepEqual(before.lifecycle, { onTimeout: 'pause', autoResume: false })
    assert.equal(before.templateId, 'base')
    assert.equal(before.allowInternetAccess, undefined)
    assert.equal(before.sandboxDomain, 'sbx.test')
    await Sandbox.setTimeout(sandboxId, 200_000)
    const after = await Sandbox.getFullInfo(sandboxId)
    assert.ok(after.endAt - before.endAt > 100_000)
    assert.equal(await Sandbox.betaPause(sandboxId), true)
    assert.equal((await Sandbox.getInfo(sandboxId)).state, 'paused')
    const woken = await sandbox.connect({ timeoutMs: 90_000 })
    assert.equal(await woken.isRunning(), true)
    assert.equal((await Sandbox.getMetrics(sandboxId)).length > 0, true)
    assert.equal(await Sandbox.kill(sandboxId), true)
  } finally {
    await Sandbox.kill(sandboxId)
  }
  for (const call of [
    () => Sandbox.getInfo(sandboxId), () => Sandbox.connect(sandboxId), () => Sandbox.setTimeout(sandboxId, 1_000),
    () => Sandbox.pause(sandboxId), () => Sandbox.getMetrics(sandboxId), () => Sandbox.createSnapshot(sandboxId),
    () => Sandbox.updateNetwork(sandboxId, {}), () => sandbox.fork(),
  ])
    await assert.rejects(call(), { name: 'SandboxNotFoundError' }, String(call))
  assert.equal(await Sandbox.kill(sandboxId), false)
  await assert.rejects(sandbox.files.read('/etc/passwd'), TimeoutError)
})

test('a pause without memory keeps files and no process', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    await sandbox.files.write('kept', 'still here')
    const command = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    command.wait().catch(() => {})
    assert.equal(await sandbox.pause({ keepMemory: false }), true)
    await sandbox.connect()
    assert.equal(await sandbox.files.read('kept'), 'still here')
    assert.equal((await sandbox.commands.run('pgrep -x sleep || echo none')).stdout, 'none\n')
    const more = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    more.wait().catch(() => {})
    await sandbox.pause()
    await sandbox.connect({ onResume: 'reboot' })
    assert.equal((await sandbox.commands.run('pgrep -x sleep || echo none')).stdout, 'none\n')
  } finally {
    await sandbox.kill()
  }
  const timed = await Sandbox.create({ timeoutMs: 2_000, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  try {
    const command = await timed.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    command.wait().catch(() => {})
    await until(async () => (await timed.getInfo()).state === 'paused', 'the pause')
    await timed.connect({ timeoutMs: 60_000 })
    assert.equal((await timed.commands.run('pgrep -x sleep || echo none')).stdout, 'none\n')
  } finally {
    await timed.kill()
  }
})

test('traffic wakes what sleeps with its memory, and nothing that sleeps without', async () => {
  const lifecycle = { onTimeout: 'pause', autoResume: true }
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, lifecycle })
  try {
    await sandbox.pause()
    assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
    await sandbox.pause({ keepMemory: false })
    await assert.rejects(sandbox.files.read('/etc/passwd'), TimeoutError)
    assert.equal(await sandbox.isRunning(), false)
    assert.equal((await sandbox.getInfo()).state, 'paused')
    await sandbox.connect()
    assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
    await sandbox.pause()
    assert.equal((await sandbox.commands.run('echo again')).stdout, 'again\n')
  } finally {
    await sandbox.kill()
  }
})

test('the list is ordered, begins where it is told to, and knows templates', async () => {
  const begun = new Date()
  const some = []
  for (const n of [1, 2, 3]) some.push(await Sandbox.create({ metadata: { order: `${n}` } }))
  const ids = some.map((each) => each.sandboxId)
  const own = (listed) => listed.map((each) => each.sandboxId).filter((id) => ids.includes(id))
  try {
    assert.deepEqual(own(await collect(Sandbox.list())), [...ids].reverse())
    assert.deepEqual(own(await collect(Sandbox.list({ order: 'asc', limit: 2 }))), ids)
    const later = await collect(Sandbox.list({ query: { startedAfter: new Date(begun - 5) } }))
    assert.deepEqual(new Set(own(later)), new Set(ids))
    assert.ok(!later.some((each) => each.sandboxId === box.sandbox.sandboxId))
    assert.equal((await collect(Sandbox.list({ query: { startedAfter: new Date(Date.now() + 60_000) } }))).length, 0)
    assert.deepEqual(own(await collect(Sandbox.list({ query: { template: 'base' }, order: 'asc' }))), ids)
    assert.equal((await collect(Sandbox.list({ query: { template: 'none' } }))).length, 0)
    const [first] = (await collect(Sandbox.list({ query: { metadata: { order: '1' } } })))
    assert.deepEqual(first.metadata, { order: '1' })
    assert.ok(first.startedAt >= begun - 5 && first.endAt > first.startedAt)
  } finally {
    await Promise.all(some.map((each) => each.kill()))
  }
})

test('metrics within a time', async () => {
  assert.equal((await box.sandbox.getMetrics({ end: new Date(Date.now() - 3_600_000) })).length, 0)
  assert.ok((await box.sandbox.getMetrics({ start: new Date(Date.now() - 60_000), end: new Date() })).length > 0)
  const answer = await api(`/sandboxes/metrics?sandbox_ids=${box.sandbox.sandboxId},none`)
  const { sandboxes } = await answer.json()
  assert.deepEqual(Object.keys(sandboxes), [box.sandbox.sandboxId])
})

test('snapshots: named, made again, paged, of one sandbox', async () => {
  const made = []
  for (const name of ['one', 'two', 'three']) made.push(await box.sandbox.createSnapshot({ name: `opt-${name}` }))
  try {
    assert.deepEqual(made.map((each) => each.snapshotId), ['opt-one:default', 'opt-two:default', 'opt-three:default'])
    const listed = await collect(Sandbox.listSnapshots({ limit: 2 }))
    assert.ok(made.every((each) => listed.some((other) => other.snapshotId === each.snapshotId)))
    assert.equal((await collect(box.sandbox.listSnapshots())).length, 3)
    assert.deepEqual((await collect(Sandbox.listSnapshots({ name: 'opt-two' }))).map((each) => each.names), [['opt-two:default']])
    await box.sandbox.files.write('/home/user/again', 'second build')
    await box.sandbox.createSnapshot({ name: 'opt-one' })
    const sandbox = await Sandbox.create('opt-one')
    assert.equal(await sandbox.files.read('/home/user/again'), 'second build')
    await sandbox.kill()
  } finally {
    for (const each of made) assert.equal(await Sandbox.deleteSnapshot(each.snapshotId), true)
  }
  for (const name of ['host', 'base', 'Base:default'])
    await assert.rejects(box.sandbox.createSnapshot({ name }), /409/)
  assert.equal(await Sandbox.deleteSnapshot('opt-one'), false)
})

test('a client of its own, and what this server has not', async () => {
  const client = new E2B({ apiKey: process.env.E2B_API_KEY })
  const sandbox = await client.Sandbox.create()
  assert.equal(await sandbox.kill(), true)
  await assert.rejects(Volume.create('v'), /volumes/)
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('no-such-template'), false)
  await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt': 'v' } }), /volumes/)
  await assert.rejects(Sandbox.create({ iam: { tokens: { t: { audience: 'a', tokenType: 'JWT-SVID' } } } }), /identity/)
  const unknown = await api('/no/such/route')
  assert.deepEqual([unknown.status, (await unknown.json()).code], [404, 404])
})

test('wrong requests are refused in words', async () => {
  await assert.rejects(Sandbox.create({ timeoutMs: 365 * 24 * 3_600_000 }), /400/)
  for (const [path, body] of [
    ['/v2/sandboxes', '{'], ['/v2/sandboxes', '[]'], ['/v2/sandboxes', '{}'],
    ['/v2/sandboxes', '{"templateID":"base","timeout":"x"}'],
    [`/sandboxes/${box.sandbox.sandboxId}/timeout`, '{}'],
    [`/sandboxes/${box.sandbox.sandboxId}/fork`, '{"count":1000}'],
  ]) {
    const answer = await api(path, { method: 'POST', body })
    assert.deepEqual([answer.status, (await answer.json()).code], [400, 400], path + body)
  }
  for (const query of ['limit=x', 'nextToken=x', 'startedAfter=x', 'limit=0', 'state=asleep', 'order=up'])
    assert.equal((await api(`/v2/sandboxes?${query}`)).status, 400, query)
})
