import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, api, collect, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox({ metadata: { purpose: 'a b', 'k&=': 'v%' }, envs: { FROM_CREATE: 'yes' } })

test('info tells what was asked for', async () => {
  const info = await box.sandbox.getInfo()
  assert.equal(info.sandboxId, box.sandbox.sandboxId)
  assert.equal(info.state, 'running')
  assert.equal(info.name, 'base')
  assert.deepEqual(info.metadata, { purpose: 'a b', 'k&=': 'v%' })
  assert.ok(info.endAt > info.startedAt)
  assert.ok(info.memoryMB > 0 && info.cpuCount > 0)
  assert.equal(await box.sandbox.isRunning(), true)
})

test('variables of the sandbox are in its processes', async () => {
  const { stdout } = await box.sandbox.commands.run('echo "$FROM_CREATE $E2B_SANDBOX $E2B_SANDBOX_ID"')
  assert.equal(stdout, `yes true ${box.sandbox.sandboxId}\n`)
})

test('the list finds by metadata, by state and page by page', async () => {
  const others = await Promise.all([1, 2, 3].map((n) => Sandbox.create({ metadata: { n: `${n}`, group: 'list' } })))
  try {
    const found = await collect(Sandbox.list({ query: { metadata: { purpose: 'a b', 'k&=': 'v%' } } }))
    assert.deepEqual(found.map((each) => each.sandboxId), [box.sandbox.sandboxId])
    const pages = await collect(Sandbox.list({ query: { metadata: { group: 'list' } }, limit: 2 }))
    assert.deepEqual(new Set(pages.map((each) => each.sandboxId)), new Set(others.map((each) => each.sandboxId)))
    await others[0].pause()
    const paused = await collect(Sandbox.list({ query: { metadata: { group: 'list' }, state: ['paused'] } }))
    assert.deepEqual(paused.map((each) => each.sandboxId), [others[0].sandboxId])
    assert.equal((await collect(Sandbox.list({ query: { metadata: { group: 'nobody' } } }))).length, 0)
  } finally {
    await Promise.all(others.map((each) => each.kill()))
  }
})

test('a killed sandbox is gone, and killing it again says so', async () => {
  const sandbox = await Sandbox.create()
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(sandbox.getInfo(), { name: 'SandboxNotFoundError' })
  await assert.rejects(sandbox.commands.run('true'), /not found|not running|killed|timeout/i)
})

test('connect gives the same sandbox, and its time grows and never shrinks', async () => {
  const before = await box.sandbox.getInfo()
  const again = await Sandbox.connect(box.sandbox.sandboxId, { timeoutMs: 1_200_000 })
  const grown = await box.sandbox.getInfo()
  assert.ok(grown.endAt > before.endAt)
  await Sandbox.connect(box.sandbox.sandboxId, { timeoutMs: 1_000 })
  assert.ok((await again.getInfo()).endAt >= grown.endAt)
  await box.sandbox.files.write('/home/user/shared', 'one')
  assert.equal(await again.files.read('/home/user/shared'), 'one')
})

test('setTimeout may shorten, and at its end the sandbox is gone', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  await sandbox.setTimeout(1_000)
  await until(async () => !(await sandbox.isRunning()), 'the end of its time')
  await assert.rejects(sandbox.getInfo(), { name: 'SandboxNotFoundError' })
})

test('pause keeps files and processes, and connect wakes it', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    await sandbox.files.write('kept', 'still here')
    const counter = await sandbox.commands.run('i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.05; done', {
      background: true,
      timeoutMs: 0,
    })
    assert.equal(await sandbox.pause(), true)
    assert.equal(await sandbox.pause(), false)
    assert.equal((await sandbox.getInfo()).state, 'paused')
    assert.equal(await sandbox.isRunning(), false)
    const same = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await same.files.read('kept'), 'still here')
    const first = Number(await same.files.read('/tmp/count'))
    await until(async () => Number(await same.files.read('/tmp/count')) > first, 'the process goes on')
    await counter.kill()
  } finally {
    await sandbox.kill()
  }
})

test('with onTimeout pause its time ends in a pause, and traffic wakes it', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 1_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  try {
    await until(async () => (await sandbox.getInfo()).state === 'paused', 'the pause')
    const { stdout } = await sandbox.commands.run('echo awake')
    assert.equal(stdout, 'awake\n')
  } finally {
    await sandbox.kill()
  }
})

test('forks have the files as they were, and go their own ways', async () => {
  await box.sandbox.files.write('/home/user/forked', 'before')
  const forks = await box.sandbox.fork({ count: 2, timeoutMs: 120_000 })
  try {
    assert.equal(forks.length, 2)
    for (const fork of forks) {
      assert.ok(!(fork instanceof Error), String(fork))
      assert.equal(await fork.files.read('/home/user/forked'), 'before')
    }
    await forks[0].files.write('/home/user/forked', 'changed')
    assert.equal(await forks[1].files.read('/home/user/forked'), 'before')
    assert.equal(await box.sandbox.files.read('/home/user/forked'), 'before')
  } finally {
    await Promise.all(forks.map((fork) => fork.kill?.()))
  }
})

test('forks have the variables, and an identity of their own', async () => {
  const [fork] = await box.sandbox.fork({ timeoutMs: 120_000 })
  try {
    const { stdout } = await fork.commands.run('echo "$FROM_CREATE $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID"')
    assert.equal(stdout, `yes true ${fork.sandboxId} base\n`)
  } finally {
    await fork.kill()
  }
})

// What runs in the origin: a process deep in a directory that has a file open for writing, and a terminal.
async function busySandbox() {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
  await sandbox.commands.run('mkdir -p deep/er')
  const writer = await sandbox.commands.run(
    'exec 5> log; for i in $(seq 100000); do echo $i >&5; echo $i > at.new && mv at.new at || exit 9; sleep 0.02; done',
    { background: true, cwd: '/home/user/deep/er', timeoutMs: 0 },
  )
  let shown = ''
  const terminal = await sandbox.pty.create({
    cols: 80,
    rows: 20,
    cwd: '/home/user/deep',
    onData: (bytes) => void (shown += Buffer.from(bytes).toString()),
    timeoutMs: 0,
  })
  const at = async () => Number(await sandbox.files.read('/home/user/deep/er/at'))
  await until(() => sandbox.files.exists('/home/user/deep/er/at'), 'the writer writes')
  const goOn = async (word) => {
    const before = await at()
    await until(async () => (await at()) > before + 2, 'the writer goes on')
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(`echo ${word} > typed; cat typed; echo $((40+2))${word}\n`))
    await until(() => shown.includes(`42${word}`), 'the terminal goes on')
    assert.ok(!/Read-only/.test(shown), shown)
    assert.equal(await sandbox.files.read('/home/user/deep/typed'), `${word}\n`)
    assert.ok((await sandbox.commands.list()).some((each) => each.pid === writer.pid))
  }
  return { sandbox, goOn }
}

async function hasWhatWasWritten(sandbox) {
  const at = Number(await sandbox.files.read('/home/user/deep/er/at'))
  const lines = (await sandbox.files.read('/home/user/deep/er/log')).trim().split('\n')
  assert.ok(at >= 1 && lines.length - at <= 1 && lines.length >= at, `${at} of ${lines.length}`)
  assert.deepEqual((await sandbox.commands.list()).length, 0)
}

test('forks beside a writer and a terminal, which go on', async () => {
  const { sandbox, goOn } = await busySandbox()
  try {
    for (const word of ['one', 'two']) {
      const forks = await sandbox.fork({ count: 2, timeoutMs: 120_000 })
      for (const fork of forks) {
        assert.ok(!(fork instanceof Error), String(fork))
        await hasWhatWasWritten(fork)
      }
      const texts = await Promise.all(forks.map((fork) => fork.files.read('/home/user/deep/er/log')))
      assert.equal(texts[0], texts[1])
      await goOn(word)
      await Promise.all(forks.map((fork) => fork.kill()))
    }
  } finally {
    await sandbox.kill()
  }
})

test('a snapshot beside a writer and a terminal, which go on', async () => {
  const { sandbox, goOn } = await busySandbox()
  try {
    const snapshot = await sandbox.createSnapshot()
    await goOn('snapped')
    const copy = await Sandbox.create(snapshot.snapshotId)
    await hasWhatWasWritten(copy)
    await copy.kill()
    await Sandbox.deleteSnapshot(snapshot.snapshotId)
  } finally {
    await sandbox.kill()
  }
})

test('forty forks at once have the files of one moment', async () => {
  await box.sandbox.files.write('/home/user/many', 'all of you')
  const forks = await box.sandbox.fork({ count: 40, timeoutMs: 120_000 })
  try {
    for (const fork of forks) assert.ok(!(fork instanceof Error), String(fork))
    assert.equal(await forks[39].files.read('/home/user/many'), 'all of you')
    assert.equal(await box.sandbox.files.read('/home/user/many'), 'all of you')
  } finally {
    await Promise.all(forks.map((fork) => fork.kill?.()))
  }
})

test('a snapshot is a template', async () => {
  await box.sandbox.files.write('/home/user/snapped', 'in the snapshot')
  const snapshot = await box.sandbox.createSnapshot()
  const sandbox = await Sandbox.create(snapshot.snapshotId)
  try {
    assert.equal(await sandbox.files.read('/home/user/snapped'), 'in the snapshot')
  } finally {
    await sandbox.kill()
  }
  const listed = await collect(box.sandbox.listSnapshots())
  assert.ok(listed.some((each) => each.snapshotId === snapshot.snapshotId))
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  await assert.rejects(Sandbox.create(snapshot.snapshotId), /not found/)
})

test('a snapshot by the same name is the newer one, and what stands on the older lives on', async () => {
  await box.sandbox.files.write('/home/user/version', 'one')
  await box.sandbox.createSnapshot({ name: 'again' })
  const older = await Sandbox.create('again')
  await box.sandbox.files.write('/home/user/version', 'two')
  const { snapshotId } = await box.sandbox.createSnapshot({ name: 'again' })
  const newer = await Sandbox.create('again')
  try {
    assert.equal(await older.files.read('/home/user/version'), 'one')
    assert.equal(await newer.files.read('/home/user/version'), 'two')
    const [fork] = await older.fork({ timeoutMs: 120_000 })
    assert.equal(await fork.files.read('/home/user/version'), 'one')
    await fork.kill()
  } finally {
    await Promise.all([older.kill(), newer.kill()])
  }
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
})

test('metrics are bytes and percent', async () => {
  const [metrics] = await box.sandbox.getMetrics()
  assert.ok(metrics.memTotal >= metrics.memUsed && metrics.memUsed > 0)
  assert.ok(metrics.diskTotal > 0 && metrics.cpuCount >= 1)
})

test('the network can be closed and opened while it runs', async () => {
  await box.sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] })
  const closed = await box.sandbox.commands.run('getent hosts example.com || echo none')
  assert.equal(closed.stdout, 'none\n')
  await box.sandbox.updateNetwork({ allowOut: ['example.com'], denyOut: ['0.0.0.0/0'] })
  const open = await box.sandbox.commands.run('getent hosts example.com || echo none')
  assert.match(open.stdout, /example\.com/)
})

test('without internet access no name has an address', async () => {
  const sandbox = await Sandbox.create({ allowInternetAccess: false })
  try {
    assert.equal((await sandbox.commands.run('getent hosts example.com || echo none')).stdout, 'none\n')
  } finally {
    await sandbox.kill()
  }
})

test('a wrong key, no key, and an unknown template are refused in the words of the protocol', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), { name: 'AuthenticationError' })
  assert.equal((await api('/sandboxes', { headers: { 'X-API-KEY': '' } })).status, 401)
  const unknown = await api('/sandboxes', {
    method: 'POST',
    body: JSON.stringify({ templateID: 'no-such-template', timeout: 10 }),
  })
  assert.equal(unknown.status, 404)
  assert.equal((await unknown.json()).code, 404)
})

test('the paths of older SDKs work', async () => {
  const created = await api('/sandboxes', { method: 'POST', body: JSON.stringify({ templateID: 'base', timeout: 30 }) })
  assert.equal(created.status, 201)
  const { sandboxID } = await created.json()
  assert.equal((await api(`/sandboxes/${sandboxID}/refreshes`, { method: 'POST', body: '{"duration":60}' })).status, 204)
  assert.equal((await api(`/sandboxes/${sandboxID}/connect`, { method: 'POST', body: '{"timeout":60}' })).status, 200)
  assert.ok((await (await api('/sandboxes')).json()).some((each) => each.sandboxID === sandboxID))
  assert.equal((await api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })).status, 204)
})

test("another project's key does not find the sandbox", async () => {
  const key = process.env.PONS_OTHER_KEY
  for (const [method, path] of [['GET', ''], ['DELETE', ''], ['POST', '/pause'], ['POST', '/connect'], ['POST', '/fork']]) {
    const answer = await api(`/sandboxes/${box.sandbox.sandboxId}${path}`, { method, headers: { 'X-API-KEY': key } })
    assert.equal(answer.status, 404, `${method} ${path}`)
  }
  const listed = await (await api('/v2/sandboxes', { headers: { 'X-API-KEY': key } })).json()
  assert.deepEqual(listed, [])
  assert.equal(await box.sandbox.isRunning(), true)
})
