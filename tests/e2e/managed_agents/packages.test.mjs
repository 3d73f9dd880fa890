// Packages of environments: installed in the background, and there when a tool is used.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beta, made, refused, results, say, turn } from './support.mjs'

const packages = { apt: [process.env.PONS_APT_PACKAGE], npm: ['is-number@7.0.0'] }
const config = { type: 'cloud', networking: { type: 'limited', allow_package_managers: true }, packages }

async function build(id, key = process.env.PONS_KEY, method = 'GET') {
  const response = await fetch(`${process.env.PONS_URL}/x/environments/${id}/build`, {
    method,
    headers: { 'x-api-key': key },
  })
  return { status: response.status, ...(await response.json()) }
}

async function settled(id) {
  for (let tries = 0; tries < 2_000; tries++) {
    const now = await build(id)
    if (now.state === 'ready' || now.state === 'failed') return now
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.fail('it is still being built')
}

test('a session made at once uses what its environment names', async () => {
  const session = await made({ environment: { config } })
  const shown = await beta.environments.retrieve(session.environment_id)
  assert.deepEqual(shown.config.packages, { type: 'packages', cargo: [], gem: [], go: [], pip: [], ...packages })
  const [said, number, owner] = results(await turn(session, [say('use the packages')]))
  assert.match(said, new RegExp(process.env.PONS_APT_SAYS))
  assert.match(number, /^true 7\.0\.0\n/)
  assert.match(owner, /^user\n/, 'what is installed by root is used by the user')
  const ready = await build(session.environment_id)
  assert.equal(ready.state, 'ready')
  assert.match(ready.template, /^packages\.[0-9a-f]{40}$/)
})

test('the same packages are the same template, and nobody else sees how far they are', async () => {
  const first = await beta.environments.create({ name: 'first', config })
  const second = await beta.environments.create({
    name: 'second',
    config: { ...config, packages: { npm: packages.npm, apt: [...packages.apt, ...packages.apt] } },
  })
  assert.equal((await settled(first.id)).template, (await settled(second.id)).template)
  assert.equal((await build(first.id, process.env.PONS_OTHER_KEY)).status, 404)
  assert.equal((await build(first.id, process.env.PONS_OTHER_KEY, 'POST')).status, 404)
  const plain = await beta.environments.create({ name: 'plain' })
  assert.equal((await build(plain.id)).state, 'none')
})

test('what cannot be installed is said to the agent, in the words of its manager', async () => {
  const environment = { config: { ...config, packages: { npm: ['is-number@999.0.0'] } } }
  const session = await made({ environment })
  const [told] = results(await turn(session, [say('try the packages')]))
  assert.match(told, /packages of this environment could not be installed: npm: .*999\.0\.0/s)
  const failed = await build(session.environment_id)
  assert.equal(failed.state, 'failed')
  assert.equal(failed.step, 'npm')
  assert.match(failed.output, /999\.0\.0/)
  // Other packages are another try; this session keeps what it was made with.
  await beta.environments.update(session.environment_id, { config: { type: 'cloud', packages: { npm: packages.npm } } })
  assert.equal((await settled(session.environment_id)).state, 'ready')
})

test('a manager that cannot be used is named', async () => {
  const { id } = await beta.environments.create({ name: 'x', config: { type: 'cloud', packages: { gem: ['rack'] } } })
  const failed = await settled(id)
  assert.equal(failed.state, 'failed')
  assert.match(failed.error, /^gem: /)
})

test('what is more than a name is refused before anything is built', async () => {
  for (const wrong of [{ apt: ['hello', '--allow-unauthenticated'] }, { npm: ['https://example.org/x.tgz'] }, { pip: ['./x'] }, { apt: ['hello-'] }])
    await refused(
      beta.environments.create({ name: 'x', config: { type: 'cloud', packages: wrong } }),
      400,
      'BadRequestError',
      /is no package of/,
    )
})
