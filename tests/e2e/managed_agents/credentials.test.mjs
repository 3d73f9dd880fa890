// A session works with a credential that neither it nor the brain ever has.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beta, made, refused, results, say, TOOLSET, turn } from './support.mjs'

const SECRET = process.env.PONS_SECRET_VALUE
const HOST = 'seen.example.net'
const environment = { config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: [HOST, 'plain.example.net'] } } }

async function keep(location) {
  const vault = await beta.vaults.create({ display_name: 'ours' })
  const credential = await beta.vaults.credentials.create(vault.id, {
    auth: { type: 'environment_variable', secret_name: 'SEEN_TOKEN', secret_value: SECRET, networking: { type: 'limited', allowed_hosts: [HOST] }, injection_location: location },
  })
  return { vault, credential }
}
const session_with = (vault) => made({ environment, session: { vault_ids: [vault.id] } })

test('a stub is in the machine, the value goes to its host and nowhere else', async () => {
  const { vault } = await keep()
  const session = await session_with(vault)
  assert.deepEqual(session.vault_ids, [vault.id])
  const heard = await turn(session, [say('use the credential')])
  const [stub, header, basic, body, elsewhere] = results(heard)
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  assert.match(stub, /\S{16,}/)
  assert.match(header, /x-own/i, 'any header carries it')
  assert.match(basic, /basic/i)
  assert.match(body, /credential|undeclared/i, 'a body does not, unless it was said')
  assert.match(elsewhere, /200/, 'what stands for it is worth nothing there')
})

test('in bodies it is swapped where that was said', async () => {
  const { vault } = await keep({ header: true, body: true })
  const heard = await turn(await session_with(vault), [say('post the credential')])
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  assert.match(results(heard)[0], /200/)
})

test('one that was archived is gone from machines at once', async () => {
  const { vault, credential } = await keep()
  const session = await session_with(vault)
  await turn(session, [say('call once')])
  await beta.vaults.credentials.archive(credential.id, { vault_id: vault.id })
  const heard = await turn(session, [say('call again')])
  assert.match(results(heard).at(-1), /200/, 'the host gets what stands in the variable')
  await beta.vaults.archive(vault.id)
  await refused(session_with(vault), 400, 'BadRequestError', /archived/)
})

test('a session without the vault has nothing of it', async () => {
  await keep()
  const heard = await turn(await made({ environment }), [say('use the credential')])
  assert.equal(results(heard)[0].trim().split('\n')[0], 'none')
  assert.ok(TOOLSET)
})
