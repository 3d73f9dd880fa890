// A brain that is killed knows no session any more: a client over HTTP hears 404 and begins anew; `pons mcp` does so
// itself. What was kept is still there.
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline/promises'
import { test } from 'node:test'

import { connect, execute, httpTransport, provision, stdioTransport, text } from './support.mjs'

const people = createInterface({ input: process.stdin })
const lines = people[Symbol.asyncIterator]()
const restart = async () => {
  process.stderr.write('restart the brain\n')
  await lines.next()
}

test('sessions end with the process, and clients find their way back', async () => {
  const direct = await connect()
  const bridged = await connect(stdioTransport())
  const kept = await provision(direct, { keep: true })
  const lost = await provision(bridged)
  await execute(direct, 'echo kept > note', { sandbox_id: kept })
  await restart()
  await assert.rejects(execute(direct, 'ls'), /404|no such session/)
  await direct.close()
  assert.match(text(await execute(bridged, 'ls', { sandbox_id: lost })), /There is no sandbox/)
  assert.match(text(await execute(bridged, 'cat note', { sandbox_id: kept })), /^kept/)
  const transport = httpTransport()
  const again = await connect(transport)
  await provision(again)
  assert.match(text(await execute(again, 'echo back')), /^back/)
  await transport.terminateSession()
  await again.close()
  await bridged.close()
  people.close()
})
