// Whose a session is, what it owns, and how it ends.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { connect, execute, httpTransport, key, otherKey, provision, stdioTransport, text, url } from './support.mjs'

const post = (headers, body) =>
  fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(body),
  })
const hello = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
}

test('every version that clients speak is agreed upon', async () => {
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2099-01-01']) {
    const answer = await post({ 'x-api-key': key }, { ...hello, params: { ...hello.params, protocolVersion: version } })
    const { result } = await answer.json()
    assert.equal(result.protocolVersion, version === '2099-01-01' ? '2025-11-25' : version)
  }
})

test('without a key, or with a wrong one, there is nothing', async () => {
  assert.equal((await post({}, hello)).status, 401)
  assert.equal((await post({ authorization: `Bearer pons_${'0'.repeat(40)}` }, hello)).status, 401)
  await assert.rejects(connect(httpTransport('pons_nonsense')), { code: 401 })
  await assert.rejects(connect(stdioTransport('pons_nonsense')), /not valid/)
})

test("a stranger's page may not speak to it, whatever key it has", async () => {
  const evil = { 'x-api-key': key, origin: 'http://evil.example:7600' }
  assert.equal((await post(evil, hello)).status, 403)
  assert.equal((await post({ 'x-api-key': key, origin: 'http://localhost:3000' }, hello)).status, 200)
})

test("another project's key reaches neither a session nor its sandboxes", async () => {
  const mine = httpTransport()
  const client = await connect(mine)
  const id = await provision(client, { keep: true })
  const session = { 'mcp-session-id': mine.sessionId }
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  assert.equal((await post({ 'x-api-key': key, ...session }, list)).status, 200)
  assert.equal((await post({ 'x-api-key': otherKey, ...session }, list)).status, 404)
  const theirs = await connect(httpTransport(otherKey))
  assert.match(text(await execute(theirs, 'ls', { sandbox_id: id })), /There is no sandbox/)
  await theirs.close()
  await client.close()
})

test('a sandbox ends with its session, and one that is kept does not', async () => {
  const transport = httpTransport()
  const client = await connect(transport)
  const gone = await provision(client)
  const kept = await provision(client, { keep: true })
  await execute(client, 'echo still here > note', { sandbox_id: kept })
  const session = transport.sessionId
  await transport.terminateSession()
  await client.close()
  assert.equal((await post({ 'x-api-key': key, 'mcp-session-id': session }, { ...hello, method: 'ping' })).status, 404)
  const next = await connect()
  assert.match(text(await execute(next, 'ls', { sandbox_id: gone })), /There is no sandbox/)
  assert.match(text(await execute(next, 'cat note', { sandbox_id: kept })), /still here/)
  await next.close()
})
