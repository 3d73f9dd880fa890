// Ports of a sandbox: connections that live, streams in both directions, WebSockets, and hosts that lie.
import assert from 'node:assert/strict'
import http from 'node:http'
import net from 'node:net'
import { test } from 'node:test'
import { WebSocket } from 'undici'
import { Sandbox, api, sharedSandbox, until } from './support.mjs'
import { HTTP_SERVER, SOCKET_SERVER, startServer } from './port_servers.mjs'

const { hostname, port } = new URL(process.env.E2B_SANDBOX_URL)
const box = sharedSandbox({}, async (sandbox) => {
  await startServer(sandbox, 'http', HTTP_SERVER, 8000)
  await startServer(sandbox, 'socket', SOCKET_SERVER, 8100)
})
const fields = (inside = 8000) => ({ 'E2b-Sandbox-Id': box.sandbox.sandboxId, 'E2b-Sandbox-Port': `${inside}` })
const host = (inside = 8000) => `${inside}-${box.sandbox.sandboxId}.sbx.test`

function ask(headers, { path = '/', agent, method = 'GET' } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path, method, headers, agent }, (response) => {
      let text = ''
      response.on('data', (data) => void (text += data))
      response.on('end', () => resolve({ status: response.statusCode, text, headers: response.headers }))
    })
    request.on('error', reject)
    request.end()
  })
}

// Bytes as they stand, and all that comes back until the server closes or `seconds` pass.
function raw(text, seconds = 5) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), hostname, () => socket.write(text))
    let got = ''
    socket.setTimeout(seconds * 1000, () => socket.destroy())
    socket.on('data', (data) => void (got += data.toString('latin1')))
    socket.on('close', () => resolve(got))
    socket.on('error', reject)
  })
}

test('one connection carries many requests', async () => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const connections = new Set()
  for (let n = 0; n < 20; ++n) {
    const answer = await new Promise((resolve, reject) => {
      const request = http.request({ hostname, port, path: `/${n}`, headers: { Host: host() }, agent }, (response) => {
        connections.add(response.socket)
        let text = ''
        response.on('data', (data) => void (text += data))
        response.on('end', () => resolve(JSON.parse(text)))
      })
      request.on('error', reject)
      request.end()
    })
    assert.equal(answer.path, `/${n}`)
  }
  assert.equal(connections.size, 1)
  agent.destroy()
})

test('an upload comes back while it goes on', async () => {
  const heard = []
  let response
  const request = http.request({ hostname, port, path: '/echo', method: 'POST', headers: { ...fields(), 'Transfer-Encoding': 'chunked' } })
  const answered = new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', (incoming) => {
      response = incoming
      incoming.on('data', (data) => heard.push(data.toString()))
      incoming.on('end', resolve)
    })
  })
  for (const word of ['first', 'second', 'third']) {
    request.write(word)
    await until(() => heard.join('').endsWith(word), `${word} comes back before the next is sent`)
  }
  request.end()
  await answered
  assert.equal(response.statusCode, 200)
  assert.equal(heard.join(''), 'firstsecondthird')
})

test('events arrive when they happen', async () => {
  const events = []
  const ended = new Promise((resolve, reject) => {
    http.get({ hostname, port, path: '/events', headers: { Host: host() } }, (response) => {
      assert.equal(response.headers['content-type'], 'text/event-stream')
      response.on('data', (data) => events.push(data.toString()))
      response.on('end', resolve)
    }).on('error', reject)
  })
  for (let n = 0; n < 3; ++n) {
    await until(() => events.join('').includes(`data: ${n}\n`), `event ${n}`)
    assert.ok(!events.join('').includes(`data: ${n + 1}\n`))
    await ask(fields(), { path: '/tick' })
  }
  await ended
})

test('a WebSocket carries text, bytes and its end in both directions', async () => {
  const socket = new WebSocket(`ws://${hostname}:${port}/chat?x=1`, { protocols: ['chat'], headers: fields(8100) })
  socket.binaryType = 'arraybuffer'
  const messages = []
  let closed
  socket.addEventListener('message', (event) => messages.push(event.data))
  socket.addEventListener('close', (event) => void (closed = event.code))
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', reject)
  })
  assert.equal(socket.protocol, 'chat')
  socket.send('hello ä')
  socket.send(new Uint8Array([0, 1, 255]))
  socket.send('x'.repeat(200_000))
  await until(() => messages.length === 3, 'three messages')
  assert.equal(messages[0], 'hello ä')
  assert.deepEqual(new Uint8Array(messages[1]), new Uint8Array([0, 1, 255]))
  assert.equal(messages[2].length, 200_000)
  socket.send('close')
  await until(() => closed, 'its end')
  assert.equal(closed, 4001)
})

test('a WebSocket to a port where nobody listens is refused with the reason', async () => {
  const answer = await raw(
    `GET / HTTP/1.1\r\nHost: ${host(8999)}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n', 2)
  assert.match(answer, /^HTTP\/1\.1 502 /)
  assert.match(answer, /port is not open/)
})

test('a server inside sees a host of its own, and none of the keys', async () => {
  const answer = await ask({ Host: host(), 'X-Access-Token': 'a service’s own'.replace('’', "'"), 'X-Custom': '1' })
  const seen = JSON.parse(answer.text)
  assert.equal(seen.host, 'localhost:8000')
  assert.equal(seen.fields['x-custom'], '1')
  assert.equal(seen.fields['x-forwarded-host'], host())
  const sandbox = await Sandbox.create({ network: { maskRequestHost: 'app-${PORT}.example.com', allowPublicTraffic: false } })
  try {
    await startServer(sandbox, 'http', HTTP_SERVER, 8000)
    const headers = { Host: `8000-${sandbox.sandboxId}.sbx.test`, 'e2b-traffic-access-token': sandbox.trafficAccessToken }
    const masked = JSON.parse((await ask(headers)).text)
    assert.equal(masked.host, 'app-8000.example.com')
    assert.equal(masked.fields['e2b-traffic-access-token'], undefined)
    assert.equal((await ask({ Host: headers.Host })).status, 403)
    // Files and processes have their own token, which opens no port.
    const info = await Sandbox.getInfo(sandbox.sandboxId)
    assert.deepEqual(info.network, { allowOut: undefined, denyOut: undefined, rules: undefined, egressProxy: undefined, allowPublicTraffic: false, maskRequestHost: 'app-${PORT}.example.com', httpsPorts: undefined })
  } finally {
    await sandbox.kill()
  }
})

test('hosts that are written another way mean the same, or nothing', async () => {
  assert.equal((await ask({ Host: host().toUpperCase() })).status, 200)
  assert.equal((await ask({ Host: `${host()}.` })).status, 200)
  assert.equal((await ask({ Host: `${host()}:${port}` })).status, 200)
  for (const odd of [
    `0-${box.sandbox.sandboxId}.sbx.test`, `65536-${box.sandbox.sandboxId}.sbx.test`, `-${box.sandbox.sandboxId}.sbx.test`,
    `8000-${box.sandbox.sandboxId}.sbx.test.example.com`, `8000-${box.sandbox.sandboxId}.example.com`,
    `x.8000-${box.sandbox.sandboxId}.sbx.test`, `8000-.sbx.test`, `08000x-${box.sandbox.sandboxId}.sbx.test`,
  ]) {
    const answer = await ask({ Host: odd })
    assert.ok(!answer.text.includes('"count"'), odd)
    assert.ok(answer.status >= 400, odd)
  }
})

test('a request with two hosts, or a host beside its target, reaches nobody', async () => {
  const other = await Sandbox.create()
  try {
    const two = await raw(`GET / HTTP/1.1\r\nHost: ${host()}\r\nHost: 8000-${other.sandboxId}.sbx.test\r\n\r\n`, 2)
    assert.match(two, /^HTTP\/1\.1 400 /)
    const none = await raw('GET / HTTP/1.1\r\n\r\n', 2)
    assert.match(none, /^HTTP\/1\.1 400 /)
    const whole = await raw(`GET http://${host()}/whole HTTP/1.1\r\nHost: ${host()}\r\nConnection: close\r\n\r\n`, 5)
    assert.match(whole, /"path": "\/whole"/)
    const beside = await raw(`GET http://${host()}/beside HTTP/1.1\r\nHost: 8000-${other.sandboxId}.sbx.test\r\nConnection: close\r\n\r\n`, 5)
    assert.ok(!beside.includes('8000-' + other.sandboxId) || /^HTTP\/1\.1 (4|5)/.test(beside), beside)
    const fieldsTwice = await raw(`GET / HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: ${box.sandbox.sandboxId}\r\nE2b-Sandbox-Id: ${other.sandboxId}\r\nE2b-Sandbox-Port: 8000\r\nConnection: close\r\n\r\n`, 5)
    assert.match(fieldsTwice, /^HTTP\/1\.1 400 /)
  } finally {
    await other.kill()
  }
})

test('fields and host that name different sandboxes', async () => {
  assert.equal((await ask({ ...fields(), Host: '8000-inosuchsandbox.sbx.test' })).status, 400)
  assert.equal((await ask({ ...fields(), Host: host(8001) })).status, 400)
  assert.equal((await ask({ ...fields(), Host: host() })).status, 200)
  const wrong = await ask({ 'E2b-Sandbox-Id': '../x', 'E2b-Sandbox-Port': '8000' })
  assert.equal(wrong.status, 400)
  const noPort = await ask({ 'E2b-Sandbox-Id': box.sandbox.sandboxId, 'E2b-Sandbox-Port': '99999' })
  assert.equal(noPort.status, 400)
})

test('a large answer that is read slowly is whole, and one that is left ends', async () => {
  await box.sandbox.commands.run('mkdir -p /tmp/www && head -c 20000000 /dev/zero > /tmp/www/big')
  const served = await box.sandbox.commands.run('cd /tmp/www && python3 -m http.server 8200 --bind 127.0.0.1', { background: true, timeoutMs: 0 })
  served.wait().catch(() => {})
  await until(async () => (await ask(fields(8200))).status === 200, 'the server')
  let size = 0
  await new Promise((resolve, reject) => {
    http.get({ hostname, port, path: '/big', headers: fields(8200) }, (response) => {
      response.on('data', (data) => {
        size += data.length
        if (size % 7 === 0) {
          response.pause()
          setTimeout(() => response.resume(), 5)
        }
      })
      response.on('end', resolve)
    }).on('error', reject)
  })
  assert.equal(size, 20_000_000)
  for (let n = 0; n < 5; ++n)
    await new Promise((resolve) => {
      const request = http.get({ hostname, port, path: '/big', headers: fields(8200) }, (response) => {
        response.once('data', () => request.destroy())
      })
      request.on('error', () => {})
      request.on('close', resolve)
    })
  assert.equal((await ask(fields(8200))).status, 200)
})

test('the port of one project is not closed to a browser, and its control is', async () => {
  const answer = await api(`/sandboxes/${box.sandbox.sandboxId}`, { headers: { 'X-API-KEY': process.env.PONS_OTHER_KEY } })
  assert.equal(answer.status, 404)
  assert.equal((await ask({ Host: host(), 'X-API-KEY': process.env.PONS_OTHER_KEY })).status, 200)
})
