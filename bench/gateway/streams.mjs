// A provider of streams, and clients of them: chunks of a chat completion, every 20 ms; for max_tokens 1 one chunk and the end.
//   node streams.mjs serve PORT
//   node streams.mjs read URL COUNT SECONDS   opens so many streams, and counts the chunks that arrive in that time
import http from 'node:http'

const chunk = (text) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'gpt-5', choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}\n\n`
const CHUNK = chunk('token ')

function serve(port) {
  const open = new Set()
  setInterval(() => {
    for (const response of open) response.write(CHUNK)
  }, 20)
  http
    .createServer((request, response) => {
      let body = ''
      request.on('data', (data) => (body += data))
      request.on('end', () => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' })
        response.write(CHUNK)
        if (body.includes('"max_tokens": 1}')) setTimeout(() => response.end('data: [DONE]\n\n'), 1)
        else open.add(response)
      })
      response.on('close', () => open.delete(response))
    })
    .listen(port, '127.0.0.1')
}

async function read(url, count, seconds) {
  const body = JSON.stringify({ model: process.env.MODEL ?? 'gpt-5', stream: true, stream_options: { include_usage: true }, messages: [{ role: 'user', content: 'hi' }] })
  const agent = new http.Agent({ maxSockets: Infinity })
  let chunks = 0
  let counting = false
  const one = () =>
    new Promise((resolve, reject) => {
      const request = http.request(url, {
        method: 'POST',
        agent,
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${process.env.KEY ?? 'none'}`, 'Content-Length': Buffer.byteLength(body) },
      })
      request.on('error', reject)
      request.on('response', (response) => {
        if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
        response.on('data', (data) => {
          if (counting) for (let at = data.indexOf('data: '); at >= 0; at = data.indexOf('data: ', at + 6)) chunks++
        })
        response.once('data', resolve)
      })
      request.end(body)
    })
  for (let i = 0; i < count; i += 50) await Promise.all(Array.from({ length: Math.min(50, count - i) }, one))
  console.log('open')
  counting = true
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  console.log(chunks)
  process.exit(0)
}

const [what, first, second, third] = process.argv.slice(2)
if (what === 'serve') serve(Number(first))
else await read(first, Number(second), Number(third))
