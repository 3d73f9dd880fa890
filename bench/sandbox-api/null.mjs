// The floor: answers the calls that create + run + kill makes at once, with canned replies. Whatever it costs is the SDK.
import http from 'node:http'

const envelope = (flags, message) => {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}
const RUN = Buffer.concat([
  envelope(0, { event: { start: { pid: 42 } } }),
  envelope(0, { event: { data: { stdout: Buffer.from('hi\n').toString('base64') } } }),
  envelope(0, { event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } }),
  envelope(2, {}),
])

let count = 0
const server = http.createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    if (request.method === 'DELETE') {
      response.writeHead(204).end()
    } else if (request.url.includes('/process.Process/')) {
      response.writeHead(200, { 'content-type': 'application/connect+json' }).end(RUN)
    } else {
      const body = JSON.stringify({
        sandboxID: `i${++count}`,
        templateID: 'base',
        clientID: 'null',
        envdVersion: '0.6.4',
        envdAccessToken: 'token',
      })
      response.writeHead(201, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
    }
  })
})
server.listen(Number(process.argv[2]), '127.0.0.1')
