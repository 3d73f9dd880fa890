// In the template `base` that was built, not in the host's programs that stand in for it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedSandbox } from './support.mjs'

const box = sharedSandbox()
const run = (line) => box.sandbox.commands.run(line)

test('commands run as the user, who may become root', async () => {
  assert.equal((await run('whoami')).stdout, 'user\n')
  assert.equal((await run('sudo whoami')).stdout, 'root\n')
  assert.equal((await run('sudo -n cat /etc/shadow | grep -c ^user:')).stdout, '1\n')
})

test('the tools that people expect are there', async () => {
  assert.match((await run('git --version')).stdout, /^git version 2\./)
  assert.match((await run('python3 --version')).stdout, /^Python 3\./)
  assert.match((await run('curl --version')).stdout, /^curl \d/)
})

test('it is a system of its own', async () => {
  await run('sudo touch /usr/bin/mine')
  assert.equal((await run('ls /usr/bin/mine')).stdout, '/usr/bin/mine\n')
  assert.match((await run('cat /etc/os-release')).stdout, /^ID=debian$/m)
})
