// The official SDK as users have it: a client over HTTP, and one that starts `pons mcp`.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export const { PONS_URL: url, PONS_KEY: key, PONS_OTHER_KEY: otherKey, PONS_BINARY: binary } = process.env

export const httpTransport = (apiKey = key, headers = {}) =>
  new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${apiKey}`, ...headers } },
  })

export const stdioTransport = (apiKey = key) =>
  new StdioClientTransport({
    command: binary,
    args: ['mcp', '--url', url],
    env: { PATH: process.env.PATH, PONS_API_KEY: apiKey },
    stderr: 'pipe',
  })

export async function connect(transport = httpTransport()) {
  const client = new Client({ name: 'pons-tests', version: '1.0.0' })
  await client.connect(transport)
  return client
}

export const text = (result) => result.content.map((part) => part.text).join('')

export const call = (client, name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, { timeout: 60_000, ...options })

export async function provision(client, more = {}) {
  const result = await call(client, 'sandbox_provision', { task_description: 'a test', ...more })
  if (result.isError) throw new Error(text(result))
  return /sandbox_id: (\S+)/.exec(text(result))[1]
}

export const execute = (client, command, more = {}, options) =>
  call(client, 'sandbox_execute', { command, ...more }, options)
