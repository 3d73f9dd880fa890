import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { Sandbox, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox()
const SERVER = `
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = f"{self.path} {self.headers['Host']}".encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        size = int(self.headers['Content-Length']); data = self.rfile.read(size)
        self.send_response(201); self.send_header('Content-Length', str(size)); self.end_headers()
        self.wfile.write(data[::-1])
    def log_message(self, *args): pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('127.0.0.1', 8000), Handler).serve_forever()
`

async function serve(sandbox) {
  await sandbox.files.write('/tmp/server.py', SERVER)
  await sandbox.commands.run('python3 /tmp/server.py', { background: true, timeoutMs: 0 })
  await sandbox.commands.run('until curl -s http://127.0.0.1:8000/ >/dev/null; do sleep 0.05; done')
}

function ask(headers, { path = '/', method = 'GET', body, withFields } = {}) {
  const { hostname, port } = new URL(process.env.E2B_SANDBOX_URL)
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path, method, headers }, (response) => {
      let text = ''
      response.on('data', (data) => void (text += data))
      response.on('end', () => resolve(withFields ? { fields: response.headers } : { status: response.statusCode, text }))
    })
    request.on('error', reject)
    request.end(body)
  })
}

test('a port is reached by its name and by fields, and sees a plain host', async () => {
  await serve(box.sandbox)
  const named = await ask({ Host: `8000-${box.sandbox.sandboxId}.sbx.test` }, { path: '/a?b=c' })
  assert.equal(named.status, 200)
  assert.match(named.text, /^\/a\?b=c localhost/)
  const fields = { 'E2b-Sandbox-Id': box.sandbox.sandboxId, 'E2b-Sandbox-Port': '8000' }
  const posted = await ask(fields, { method: 'POST', body: 'abc', path: '/x' })
  assert.deepEqual(posted, { status: 201, text: 'cba' })
  assert.equal(box.sandbox.getHost(8000), `8000-${box.sandbox.sandboxId}.sbx.test`)
})

test("an application's answer stays as it is", async () => {
  const host = { Host: `8000-${box.sandbox.sandboxId}.sbx.test` }
  const { fields } = await ask(host, { withFields: true })
  assert.deepEqual(Object.keys(fields).filter((name) => /request-id|retry-after/.test(name)), [])
  const closed = await ask({ Host: `8001-${box.sandbox.sandboxId}.sbx.test` }, { withFields: true })
  assert.match(closed.fields['x-request-id'], /^req_/)
})

test('a server that listens on ::1 alone is reached as well', async () => {
  const text = "import http.server as h, socket; h.HTTPServer.address_family = socket.AF_INET6; h.HTTPServer(('::1', 8006), h.SimpleHTTPRequestHandler).serve_forever()"
  await box.sandbox.files.write('/tmp/six.py', text)
  await box.sandbox.commands.run('mkdir -p /tmp/six; echo six > /tmp/six/f')
  const server = await box.sandbox.commands.run('python3 /tmp/six.py', { background: true, timeoutMs: 0, cwd: '/tmp/six' })
  try {
    const reached = () => ask({ Host: `8006-${box.sandbox.sandboxId}.sbx.test` }, { path: '/f' })
    await until(async () => (await reached()).status === 200, 'the port is open')
    assert.equal((await reached()).text, 'six\n')
  } finally {
    await server.kill()
  }
})

test('a closed port and a sandbox that is not there are 502 with the reason', async () => {
  const closed = await ask({ Host: `8001-${box.sandbox.sandboxId}.sbx.test` })
  assert.equal(closed.status, 502)
  assert.match(JSON.parse(closed.text).message, /port is not open/)
  const gone = await ask({ Host: '8000-inosuchsandbox.sbx.test' })
  assert.equal(gone.status, 502)
  assert.match(JSON.parse(gone.text).message, /not found/)
})

test('ports that are not public need their token', async () => {
  const sandbox = await Sandbox.create({ network: { allowPublicTraffic: false } })
  try {
    await serve(sandbox)
    const host = { Host: `8000-${sandbox.sandboxId}.sbx.test` }
    assert.equal((await ask(host)).status, 403)
    assert.equal((await ask({ ...host, 'e2b-traffic-access-token': 'wrong' })).status, 403)
    assert.equal((await ask({ ...host, 'e2b-traffic-access-token': sandbox.trafficAccessToken })).status, 200)
  } finally {
    await sandbox.kill()
  }
})
