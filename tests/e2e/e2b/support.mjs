// The SDK as users have it, pointed at Pons by environment variables alone.
import { after, before } from 'node:test'
import { Sandbox, Secret } from 'e2b'

export { Sandbox, Secret }

// One sandbox for all tests of a file, prepared, and its end.
export function sharedSandbox(options = {}, prepare = async () => {}) {
  const box = {}
  before(async () => {
    box.sandbox = await Sandbox.create({ timeoutMs: 600_000, ...options })
    await prepare(box.sandbox)
  })
  after(async () => {
    await box.sandbox?.kill()
  })
  return box
}

export async function until(condition, what, seconds = 20) {
  const end = Date.now() + seconds * 1000
  while (Date.now() < end) {
    const value = await condition()
    if (value) return value
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not in ${seconds} s: ${what}`)
}

export async function collect(paginator) {
  const all = []
  while (paginator.hasNext) all.push(...(await paginator.nextItems()))
  return all
}

// A request to the API without the SDK.
export function api(path, options = {}) {
  return fetch(process.env.E2B_API_URL + path, {
    ...options,
    headers: { 'X-API-KEY': process.env.E2B_API_KEY, ...options.headers },
  })
}
