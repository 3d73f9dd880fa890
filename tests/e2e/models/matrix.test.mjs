// Each protocol of a client over each protocol of a provider, whole and streaming.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PNG, anthropic, openai, protocols } from './support.mjs'

const USAGE = { prompt: 125, cached: 20, output: 42 }

for (const [client, { ask }] of Object.entries(protocols)) {
  for (const provider of ['messages', 'chat', 'responses']) {
    for (const stream of [false, true]) {
      const model = `through-${provider}`
      const name = `${client} over ${provider}${stream ? ', streaming' : ''}`

      test(`${name}: text and usage arrive as the provider meant them`, async () => {
        const answer = await ask(model, [{ user: 'plain' }], { stream })
        assert.equal(answer.text, 'Hello, plain: ü, 😀, "quotes" and\nlines.')
        assert.equal(answer.stop, 'end')
        assert.deepEqual(answer.usage, USAGE)
      })

      test(`${name}: two tools are called at once, and their results go back`, async () => {
        const turns = [{ user: 'two tools' }]
        const first = await ask(model, turns, { stream, tools: true })
        assert.equal(first.stop, 'tools')
        assert.deepEqual(
          first.calls.map(({ name, input }) => ({ name, input })),
          [
            { name: 'get_weather', input: { city: 'Paris' } },
            { name: 'get_time', input: { zone: 'CET' } },
          ],
        )
        assert.notEqual(first.calls[0].id, first.calls[1].id)
        const results = { [first.calls[0].id]: 'sunny, 21 °C', [first.calls[1].id]: 'noon' }
        const second = await ask(model, [...turns, { raw: first.raw }, { results }], { stream, tools: true })
        assert.equal(second.text, 'It is noon.')
      })

      test(`${name}: an image is taken`, async () => {
        const answer = await ask(model, [{ user: 'image', image: PNG }], { stream })
        assert.equal(answer.text, 'A red dot.')
      })

      test(`${name}: an answer that is cut off by its limit says so`, async () => {
        assert.equal((await ask(model, [{ user: 'too long' }], { stream })).stop, 'length')
      })

      test(`${name}: thinking arrives, and is taken back`, async () => {
        const turns = [{ user: 'think' }]
        const first = await ask(model, turns, { stream, think: true })
        assert.equal(first.text, 'Done thinking.')
        assert.equal(first.thinking, 'Let me think about that.')
        const second = await ask(model, [...turns, { raw: first.raw }, { user: 'plain' }], { stream, think: true })
        assert.match(second.text, /^Hello, plain/)
      })
    }
  }
}

test('both SDKs list the models', async () => {
  for (const sdk of [anthropic, openai]) {
    const names = []
    for await (const model of sdk.models.list()) names.push(model.id)
    assert.deepEqual(names.sort(), ['through-chat', 'through-messages', 'through-responses'])
  }
})

test('both SDKs are told of one model, and that there is no other', async () => {
  for (const sdk of [anthropic, openai]) {
    for (const name of ['through-chat', 'by-chat/some/thing']) assert.equal((await sdk.models.retrieve(name)).id, name)
    await assert.rejects(sdk.models.retrieve('nonsense'), { status: 404 })
  }
})

test('tokens are counted by a provider that does, and estimated for others', async () => {
  const messages = [{ role: 'user', content: 'word '.repeat(1000) }]
  for (const provider of ['messages', 'chat', 'responses']) {
    const { data, response } = await anthropic.messages
      .countTokens({ model: `through-${provider}`, messages })
      .withResponse()
    assert.ok(data.input_tokens >= 1000, provider)
    assert.equal(response.headers.get('x-pons-estimate'), provider === 'messages' ? null : 'true')
  }
})
