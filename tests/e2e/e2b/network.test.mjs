// In a world of its own: hosts behind public addresses, one of which answers with what it was sent.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, Secret, api } from './support.mjs'

const VALUE = process.env.PONS_SECRET_VALUE
const READER = 'seen.example.net' // /echo answers with the request; its bytes are on record
const PLAIN = 'plain.example.net'
const ADDRESS = '93.184.216.34' // of PLAIN

async function withSandbox(options, work) {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, ...options })
  try {
    await work(sandbox)
  } finally {
    await sandbox.kill()
  }
}

const status = async (sandbox, url, more = '') =>
  (await sandbox.commands.run(`curl -s -m 20 -o /dev/null -w '%{http_code}' ${more} ${url} || true`)).stdout
// 403 is Pons's own answer to what is not allowed; 000 is a name that is not there.
const isOpen = async (...words) => !['403', '000'].includes(await status(...words))

test('a secret goes into the field of its host, and never comes back', async () => {
  await Secret.create('reader-token', VALUE)
  const rule = { transform: { headers: { Authorization: `Bearer ${Secret.fill('reader-token')}`, 'X-Plain': 'literal' } } }
  const rules = { [READER]: [rule] }
  await withSandbox({ network: { allowOut: [READER, PLAIN], denyOut: ['0.0.0.0/0'], rules } }, async (sandbox) => {
    const ask = async (path) =>
      (await sandbox.commands.run(`curl -s -m 20 -i --compressed -H 'Authorization: mine' 'https://${READER}${path}'`)).stdout
    for (const path of ['/echo', '/echo?coding=gzip', '/echo?encoding=base64', '/echo?encoding=hex', '/field', '/drip']) {
      const answer = await ask(path)
      assert.match(answer, /^HTTP\/1\.1 200/, path)
      for (const form of [VALUE, Buffer.from(VALUE).toString('base64').slice(0, -4), Buffer.from(VALUE).toString('hex')])
        assert.ok(!answer.includes(form), `${path}: ${answer}`)
    }
    const echo = await ask('/echo')
    assert.match(echo, /Bearer x{40}/)
    assert.match(echo, /x-plain: literal/i)
    assert.ok(!echo.includes('mine'), echo)
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 http://${READER}/echo`)
    assert.match(stdout, /x-plain: literal/i)
    assert.doesNotMatch(stdout, /authorization/i)
    await sandbox.commands.run(`curl -s -m 20 https://${PLAIN}/`).catch(() => {})
    const inside = await sandbox.commands.run('cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; env')
    assert.ok(!inside.stdout.includes(VALUE))
    const info = await sandbox.getInfo()
    assert.deepEqual(info.network.rules, rules)
    assert.ok(!JSON.stringify(info).includes(VALUE))
  })
})

test('the rules of the closest name hold, and no others', async () => {
  const set = (headers) => [{ transform: { headers } }]
  const rules = {
    '*.net': set({ 'X-All': 'all' }),
    '*.Example.net': set({ 'X-Wild': 'wild', Authorization: `Bearer ${Secret.fill('Reader-Token')}` }),
    [READER]: set({ 'X-Own': 'own' }),
  }
  await withSandbox({ network: { allowOut: [READER, PLAIN], denyOut: ['0.0.0.0/0'], rules } }, async (sandbox) => {
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 'https://${READER}/echo'`)
    assert.match(stdout, /x-own: own/i)
    assert.doesNotMatch(stdout, /x-wild|x-all|authorization/i)
  })
  delete rules[READER]
  await withSandbox({ network: { allowOut: [READER], denyOut: ['0.0.0.0/0'], rules } }, async (sandbox) => {
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 'https://${READER}/echo'`)
    assert.match(stdout, /x-wild: wild/i)
    assert.match(stdout, /Bearer x{40}/)
    assert.doesNotMatch(stdout, /x-all/i)
  })
  await withSandbox({ network: { rules: { ...rules, [READER]: [] } } }, async (sandbox) => {
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 'https://${READER}/echo'`)
    assert.doesNotMatch(stdout, /x-wild|x-all/i)
  })
})

test('a rule does not grant access', async () => {
  const rules = { [READER]: [{ transform: { headers: { 'X-A': '1' } } }] }
  await withSandbox({ network: { allowOut: [PLAIN], denyOut: ['0.0.0.0/0'], rules } }, async (sandbox) => {
    assert.equal(await isOpen(sandbox, `https://${READER}/`), false)
    assert.equal(await isOpen(sandbox, `https://${PLAIN}/`), true)
  })
})

test('a request that needs a secret which is not there does not leave', async () => {
  const rules = { [READER]: [{ transform: { headers: { 'X-A': Secret.fill('no-such-secret') } } }] }
  await withSandbox({ network: { rules } }, async (sandbox) => {
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 https://${READER}/`)
    assert.match(stdout, /secret_unavailable/)
  })
})

test("another project's secret is none of ours", async () => {
  await Secret.create('theirs-only', 'another value of enough length', { apiKey: process.env.PONS_OTHER_KEY })
  const rules = { [READER]: [{ transform: { headers: { 'X-A': Secret.fill('theirs-only') } } }] }
  await withSandbox({ network: { rules } }, async (sandbox) => {
    const { stdout } = await sandbox.commands.run(`curl -s -m 20 https://${READER}/`)
    assert.match(stdout, /secret_unavailable/)
  })
})

test('what is allowed is so whatever is denied', async () => {
  await withSandbox({ network: { allowOut: [ADDRESS], denyOut: ['93.184.216.0/24'] } }, async (sandbox) => {
    assert.equal(await isOpen(sandbox, `http://${ADDRESS}/`), true)
    assert.equal(await isOpen(sandbox, 'http://93.184.216.35/'), false)
    assert.equal(await isOpen(sandbox, 'https://seen.example.net/'), false)
    assert.equal(await isOpen(sandbox, 'https://github.com/'), true)
  })
  await withSandbox({ network: { allowOut: ['93.184.216.32/28'], denyOut: ['0.0.0.0/0'] } }, async (sandbox) => {
    assert.equal(await isOpen(sandbox, `http://${ADDRESS}/`), true)
    assert.equal(await isOpen(sandbox, 'http://140.82.112.3/'), false)
  })
})

test('the network is what the last update said, and is shown so', async () => {
  await withSandbox({ network: { allowPublicTraffic: true } }, async (sandbox) => {
    assert.equal(await isOpen(sandbox, `https://${PLAIN}/`), true)
    await sandbox.updateNetwork({ allowOut: [READER], denyOut: ({ allTraffic }) => [allTraffic] })
    assert.equal(await isOpen(sandbox, `https://${PLAIN}/`), false)
    assert.equal(await isOpen(sandbox, `https://${READER}/`), true)
    let { network } = await sandbox.getInfo()
    assert.deepEqual([network.allowOut, network.denyOut], [[READER], ['0.0.0.0/0']])
    assert.equal(network.allowPublicTraffic, true)
    const [fork] = await sandbox.fork({ timeoutMs: 120_000 })
    assert.equal(await isOpen(fork, `https://${PLAIN}/`), false)
    await fork.kill()
    await sandbox.updateNetwork({ allowInternetAccess: false })
    assert.equal(await isOpen(sandbox, `https://${READER}/`), false)
    const info = await sandbox.getInfo()
    assert.equal(info.allowInternetAccess, false)
    assert.equal(info.network?.allowOut, undefined)
  })
})

test('no words open what is not public', async () => {
  for (const entry of ['10.1.2.3', '10.0.0.0/8', '127.0.0.1', '169.254.169.254', '192.168.0.0/16', 'localhost'])
    await assert.rejects(Sandbox.create({ network: { allowOut: [entry], denyOut: ['0.0.0.0/0'] } }), /400/, entry)
  await withSandbox({ network: { allowOut: ['0.0.0.0/0', '0.0.0.0/1', 'private.example.net'] } }, async (sandbox) => {
    assert.equal(await isOpen(sandbox, 'http://10.1.2.3/'), false)
    assert.equal(await isOpen(sandbox, 'https://private.example.net/', '-k'), false)
  })
})

test('what cannot be kept is refused in words', async () => {
  for (const network of [
    { egressProxy: { address: 'proxy.example.com:1080' } },
    { httpsPorts: [3000] },
    { rules: { [READER]: [{ transform: { headers: { Host: 'x' } } }] } },
    { rules: { [READER]: [{ transform: { headers: { 'X-A': 'a\r\nb: c' } } }] } },
    { rules: { '93.184.216.50': [{ transform: { headers: { 'X-A': 'a' } } }] } },
    { rules: { [READER]: [{ transform: { headers: { 'X-A': '${e2b.identity.tokens.t}' } } }] } },
  ]) {
    const answer = await api('/v2/sandboxes', { method: 'POST', body: JSON.stringify({ templateID: 'base', network }) })
    const body = await answer.json()
    assert.deepEqual([answer.status, body.code], [400, 400], JSON.stringify(network))
    assert.ok(body.message.length > 10)
  }
})
