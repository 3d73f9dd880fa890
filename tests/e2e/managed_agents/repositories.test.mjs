// Repositories in machines: cloned with a token that is in a vault, and nowhere in the machine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beta, made, results, say, turn } from './support.mjs'

const SECRET = process.env.PONS_SECRET_VALUE
const FIRST = process.env.PONS_FIRST_COMMIT
const url = 'https://github.com/private/repo.git'
const environment = { config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: ['github.com'] } } }
const resources = [
  { type: 'github_repository', url, checkout: { type: 'branch', name: 'main' } },
  { type: 'github_repository', url, checkout: { type: 'commit', sha: FIRST }, mount_path: '/workspace/old' },
]

test('a private repository is in the machine, with the token in none of its files', async () => {
  const vault = await beta.vaults.create({ display_name: 'ours' })
  await beta.vaults.credentials.create(vault.id, {
    auth: { type: 'environment_variable', secret_name: 'GITHUB_TOKEN', secret_value: SECRET, networking: { type: 'limited', allowed_hosts: ['github.com'] } },
  })
  const session = await made({ environment, session: { resources, vault_ids: [vault.id] } })
  assert.deepEqual(session.resources.map((each) => each.mount_path), ['/workspace/repo', '/workspace/old'])
  assert.deepEqual(session.resources[1].checkout, { type: 'commit', sha: FIRST })
  const heard = await turn(session, [say('read the repository')])
  const [main, old, stub] = results(heard)
  assert.match(main, /^second\nfirst\nthese are the second words/)
  assert.match(old, /^first\n/)
  assert.match(stub, /^stub: \S{16,}\nnowhere\n\[exit code 0[^\n]*$/, 'nor is what stands for it')
  assert.ok(!JSON.stringify(heard).includes(SECRET))
})

test('without the token it is not, and the agent is told why', async () => {
  const session = await made({ environment, session: { resources: [resources[0]] } })
  const [told] = results(await turn(session, [say('read the repository')]))
  assert.match(told, /private\/repo.git cannot be put at \/workspace\/repo/)
})
