import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox()

test('text and bytes come back as they were', async () => {
  const { files } = box.sandbox
  const info = await files.write('notes/a b ä.txt', 'first')
  assert.equal(info.path, '/home/user/notes/a b ä.txt')
  assert.equal(await files.read('notes/a b ä.txt'), 'first')
  const bytes = new Uint8Array(300_000).map((_, i) => (i * 7) & 255)
  await files.write('/tmp/bytes', bytes.buffer)
  assert.deepEqual(await files.read('/tmp/bytes', { format: 'bytes' }), bytes)
  await files.write('/tmp/empty', '')
  assert.equal(await files.read('/tmp/empty'), '')
})

test('several files at once', async () => {
  const written = await box.sandbox.files.write([
    { path: '/tmp/many/1', data: 'one' },
    { path: '/tmp/many/2', data: 'two' },
  ])
  assert.deepEqual(written.map((each) => each.path), ['/tmp/many/1', '/tmp/many/2'])
  assert.equal(await box.sandbox.files.read('/tmp/many/2'), 'two')
})

test('a stream of ten megabytes goes in and comes out', async () => {
  const piece = new Uint8Array(64 * 1024).fill(97)
  let left = 160
  const source = new ReadableStream({
    pull(controller) {
      if (left-- > 0) controller.enqueue(piece)
      else controller.close()
    },
  })
  await box.sandbox.files.write('/tmp/large', source)
  let size = 0
  for await (const bytes of await box.sandbox.files.read('/tmp/large', { format: 'stream' })) size += bytes.length
  assert.equal(size, 160 * 64 * 1024)
})

test('directories: made once, listed by depth, renamed, removed', async () => {
  const { files } = box.sandbox
  assert.equal(await files.makeDir('tree/one/two'), true)
  assert.equal(await files.makeDir('tree/one/two'), false)
  await files.write('tree/one/two/leaf', 'x')
  const flat = await files.list('tree')
  assert.deepEqual(flat.map((each) => [each.name, each.type]), [['one', 'dir']])
  const deep = await files.list('tree', { depth: 3 })
  assert.deepEqual(deep.map((each) => each.path), [
    '/home/user/tree/one',
    '/home/user/tree/one/two',
    '/home/user/tree/one/two/leaf',
  ])
  const moved = await files.rename('tree/one/two/leaf', 'tree/new/place')
  assert.equal(moved.path, '/home/user/tree/new/place')
  assert.equal(await files.exists('tree/one/two/leaf'), false)
  await files.remove('tree')
  assert.equal(await files.exists('tree'), false)
  await files.remove('tree')
})

test('a file comes packed for who asks for it', async () => {
  const text = Array.from({ length: 100_000 }, (_, n) => `line ${n}\n`).join('')
  await box.sandbox.files.write('/tmp/packed', text)
  assert.equal(await box.sandbox.files.read('/tmp/packed', { gzip: true }), text)
})

test('links lead where the kernel says', async () => {
  const lines = [
    'mkdir -p /tmp/far/lib; echo right > /tmp/far/bar; echo wrong > /tmp/bar',
    'ln -s ../bar /tmp/far/lib/foo; ln -s /tmp/far/lib /tmp/up; ln -s ../new /tmp/far/lib/new',
    'for i in $(seq 1500); do ln -s ../bar /tmp/far/lib/l$i; done',
  ]
  await box.sandbox.commands.run(lines.join('; '))
  assert.equal(await box.sandbox.files.read('/tmp/up/foo'), 'right\n')
  assert.equal((await box.sandbox.files.getInfo('/tmp/up/foo')).symlinkTarget, '/tmp/far/bar')
  await box.sandbox.files.write('/tmp/up/foo', 'written')
  await box.sandbox.files.write('/tmp/up/new', 'made')
  assert.equal((await box.sandbox.commands.run('cat /tmp/far/bar /tmp/far/new /tmp/bar')).stdout, 'writtenmadewrong\n')
  assert.equal(await box.sandbox.files.makeDir('/tmp/up'), false)
  const listed = await box.sandbox.files.list('/tmp/far/lib')
  assert.equal(listed.length, 1502)
  assert.ok(listed.every((each) => each.type === 'file'))
})

test('what a file is: size, owner, rights, link', async () => {
  await box.sandbox.files.write('/tmp/fact', 'hello')
  await box.sandbox.commands.run('chmod 640 /tmp/fact; ln -sf /tmp/fact /tmp/link')
  const info = await box.sandbox.files.getInfo('/tmp/fact')
  assert.deepEqual([info.name, info.type, info.size, info.mode], ['fact', 'file', 5, 0o640])
  assert.deepEqual([info.owner, info.group, info.permissions], ['user', 'user', '-rw-r-----'])
  assert.equal((await box.sandbox.files.getInfo('/tmp/link')).symlinkTarget, '/tmp/fact')
})

test('what is not there, and what is no file, is refused in its words', async () => {
  const { files } = box.sandbox
  await assert.rejects(files.read('/no/such/file'), { name: 'FileNotFoundError' })
  await assert.rejects(files.list('/no/such/dir'), { name: 'FileNotFoundError' })
  await assert.rejects(files.read('/tmp'), /directory/)
  await assert.rejects(files.list('/etc/passwd'), /not a directory/i)
})

test('no path leads out of the sandbox', async () => {
  const { files } = box.sandbox
  for (const path of ['../../../../../../../etc/shadow', '/proc/1/root/../../../etc/shadow', '/tmp/../../../etc/shadow'])
    await assert.rejects(files.read(path))
  await box.sandbox.commands.run('ln -sfn / /tmp/rooted; ln -sfn ../../../../.. /tmp/up')
  const name = (await box.sandbox.commands.run('cat /etc/passwd')).stdout
  assert.equal(await files.read('/tmp/rooted/etc/passwd'), name)
  assert.equal(await files.read('/tmp/up/etc/passwd'), name)
})

test('changes are told as they happen, also below', async () => {
  await box.sandbox.files.makeDir('/tmp/watched')
  const seen = []
  const watch = await box.sandbox.files.watchDir('/tmp/watched', (event) => seen.push(`${event.type} ${event.name}`), {
    recursive: true,
  })
  await box.sandbox.files.write('/tmp/watched/file', 'x')
  await until(() => seen.includes('create file') && seen.includes('write file'), 'the file')
  await box.sandbox.files.makeDir('/tmp/watched/sub')
  await until(() => seen.includes('create sub'), 'the directory')
  await until(async () => {
    await box.sandbox.files.write('/tmp/watched/sub/below', `${Math.random()}`)
    return seen.some((each) => each.endsWith('sub/below'))
  }, 'the file below')
  await box.sandbox.files.remove('/tmp/watched/file')
  await until(() => seen.includes('remove file'), 'the end of the file')
  await watch.stop()
})

test('signed addresses work without a token, for their path only and until they end', async () => {
  await box.sandbox.files.write('/tmp/signed', 'by signature')
  const url = await box.sandbox.downloadUrl('/tmp/signed', { useSignatureExpiration: 30_000 })
  assert.equal(await (await fetch(url)).text(), 'by signature')
  assert.equal((await fetch(url.replace('signed', 'fact'))).status, 401)
  assert.equal((await fetch(url.replace(/signature=v1_./, 'signature=v1_!'))).status, 401)
  const upload = await box.sandbox.uploadUrl('/tmp/put', { useSignatureExpiration: 30_000 })
  const form = new FormData()
  form.append('file', new Blob(['sent']), '/tmp/put')
  assert.equal((await fetch(upload, { method: 'POST', body: form })).status, 200)
  assert.equal(await box.sandbox.files.read('/tmp/put'), 'sent')
})

test('a wrong token opens nothing', async () => {
  const answer = await fetch(`${process.env.E2B_SANDBOX_URL}/files?path=/etc/passwd`, {
    headers: {
      'E2b-Sandbox-Id': box.sandbox.sandboxId,
      'E2b-Sandbox-Port': '49983',
      'X-Access-Token': 'wrong',
    },
  })
  assert.equal(answer.status, 401)
})

test('a full disk is told, and nothing else breaks', async () => {
  const sandbox = await Sandbox.create()
  try {
    const piece = new Uint8Array(1 << 20)
    let left = 2_000
    const source = new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(piece)
        else controller.close()
      },
    })
    await assert.rejects(sandbox.files.write('/home/user/huge', source, { requestTimeoutMs: 120_000 }), /space|507/i)
    await sandbox.files.remove('/home/user/huge')
    await sandbox.files.write('/home/user/small', 'fits')
  } finally {
    await sandbox.kill()
  }
})
