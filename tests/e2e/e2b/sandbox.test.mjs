import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, api, collect, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox({ metadata: { purpose: 'a b', 'k&=': 'v%' }, envs: { FROM_CREATE: 'yes' } })

test('info tells what was asked for', async () => {
  const info = await box.sandbox.getInfo()
  assert.equal(info.sandboxId, box.sandbox.sandboxId)
  assert.equal(info.state, 'running')
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
  const again = await Sandbox.connect(box.sandbox.sandboxId, { timeoutMs: 300_000 })
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
  const forks = await box.sandbox.fork({ count: 2 })
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
