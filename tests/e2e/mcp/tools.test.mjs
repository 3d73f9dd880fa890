// Everything a client does with the tools, over HTTP and through `pons mcp`: both are the same to it.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { call, connect, execute, httpTransport, provision, stdioTransport, text } from './support.mjs'

for (const [name, transport] of [['http', httpTransport], ['stdio', stdioTransport]]) {
  test(`${name}: the server says who it is, and lists its two tools`, async () => {
    const client = await connect(transport())
    assert.equal(client.getServerVersion().name, 'pons')
    assert.ok(client.getServerCapabilities().tools)
    const { tools } = await client.listTools()
    assert.deepEqual(tools.map((tool) => tool.name), ['sandbox_provision', 'sandbox_execute'])
    for (const tool of tools) assert.equal(tool.inputSchema.type, 'object')
    await client.ping()
    await client.close()
  })

  test(`${name}: a sandbox is made and used, and its files stay between commands`, async () => {
    const client = await connect(transport())
    const id = await provision(client)
    assert.match(id, /^sx-/)
    const written = await execute(client, "printf 'one\\ntwo\\n' > notes.txt")
    assert.ok(!written.isError)
    const read = await execute(client, 'wc -l < notes.txt; cat', { sandbox_id: id, stdin: 'from here\n' })
    assert.match(text(read), /^2\nfrom here\n\[exit code 0/)
    const failed = await execute(client, 'echo why >&2; exit 3')
    assert.ok(failed.isError)
    assert.match(text(failed), /why\n\[exit code 3/)
    await client.close()
  })

  test(`${name}: wrong calls are told what is wrong`, async () => {
    const client = await connect(transport())
    assert.match(text(await execute(client, 'ls')), /sandbox_provision first/)
    assert.ok((await call(client, 'sandbox_execute', {})).isError)
    await assert.rejects(call(client, 'spawn_agent', { task: 'x' }), /no such tool/)
    await assert.rejects(client.listResources(), /no such method|does not support/)
    await client.close()
  })

  test(`${name}: a command can be cancelled, and others go on meanwhile`, async () => {
    const client = await connect(transport())
    await provision(client)
    const controller = new AbortController()
    const running = execute(client, 'sleep 300 & echo $! > pid; wait', {}, { signal: controller.signal })
    let pid = ''
    while (!pid) pid = text(await execute(client, 'cat pid 2>/dev/null')).split('\n[')[0].trim().replace(/^\[.*/, '')
    controller.abort('enough')
    await assert.rejects(running, /enough|Abort/)
    for (;;) {
      const left = await execute(client, `kill -0 ${pid} 2>/dev/null && echo there || echo gone`)
      if (text(left).startsWith('gone')) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await client.close()
  })

  test(`${name}: a long output is shortened, and a long command says that it runs`, async () => {
    const client = await connect(transport())
    await provision(client)
    const long = text(await execute(client, 'seq 100000'))
    assert.ok(long.length < 30_000)
    assert.match(long, /left out here/)
    const heard = []
    await execute(client, 'sleep 6', {}, { onprogress: (progress) => heard.push(progress) })
    assert.ok(heard.length >= 1, 'of its progress')
    await client.close()
  })
}
