// Against a server whose operator has said nothing of domains, and lets bodies be silent for a second.
import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { api, sharedSandbox, until } from './support.mjs'

const box = sharedSandbox()

function ask(url, headers, method = 'GET', body = undefined) {
  const { hostname, port, pathname } = new URL(url)
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path: pathname, method, headers }, (response) => {
      let text = ''
      response.on('data', (data) => void (text += data))
      response.on('end', () => resolve({ status: response.statusCode, text }))
    })
    request.on('error', reject)
    if (body) body(request)
    else request.end()
  })
}

// Some bytes, a silence that is longer than bodies may have, and the rest.
const slowly = (first, last) => (request) => {
  request.write(first)
  setTimeout(() => request.end(last), 2_500)
}

const ECHO = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self, body):
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(self.path.encode())
    def do_POST(self): self.answer(self.rfile.read(int(self.headers['Content-Length'])))
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(('127.0.0.1', 3000), Handler).serve_forever()
`

test('the name that getHost makes leads to the port', async () => {
  await box.sandbox.files.write('/tmp/echo.py', ECHO)
  await box.sandbox.commands.run('python3 /tmp/echo.py', { background: true, timeoutMs: 0 })
  const host = box.sandbox.getHost(3000)
  assert.match(host, /^3000-i[0-9a-z]{20}\.e2b\.app$/)
  const reached = () => ask(`${process.env.E2B_SANDBOX_URL}/there`, { Host: host })
  await until(async () => (await reached()).status === 200, 'the port is open')
  assert.equal((await reached()).text, '/there')
  const closed = await ask(`${process.env.E2B_SANDBOX_URL}/`, { Host: box.sandbox.getHost(3001) })
  assert.deepEqual([closed.status, JSON.parse(closed.text).port], [502, 3001])
  // Names of no sandbox of this server are the control plane's.
  for (const other of ['3000-abc.e2b.app', 'api.e2b.app', `3000-x${box.sandbox.sandboxId}.e2b.app`])
    assert.equal((await ask(`${process.env.E2B_API_URL}/there`, { Host: other })).status, 404, other)
})

test('who writes to a sandbox may take his time, and nobody else', async () => {
  const fields = {
    'E2b-Sandbox-Id': box.sandbox.sandboxId,
    'E2b-Sandbox-Port': '3000',
    'Content-Length': '10',
  }
  const posted = await ask(`${process.env.E2B_SANDBOX_URL}/`, fields, 'POST', slowly('01234', '56789'))
  assert.deepEqual(posted, { status: 200, text: '0123456789' })
  const stream = new ReadableStream({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode('first '))
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      controller.enqueue(new TextEncoder().encode('and last'))
      controller.close()
    },
  })
  await box.sandbox.files.write('/tmp/slow', stream)
  assert.equal(await box.sandbox.files.read('/tmp/slow'), 'first and last')
  const key = { 'X-API-KEY': process.env.E2B_API_KEY, 'Content-Length': '30' }
  const refused = ask(`${process.env.E2B_API_URL}/v2/sandboxes`, key, 'POST', slowly('{"templateID":', '"base"}         '))
  await assert.rejects(refused.then(({ status }) => { if (status >= 400) throw new Error(`${status}`) }))
  assert.equal((await api('/v2/sandboxes')).status, 200)
})
