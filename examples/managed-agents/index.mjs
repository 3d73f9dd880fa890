// A program for Claude Managed Agents; two environment variables point it at Pons (README.md).
import Anthropic from '@anthropic-ai/sdk'

const { agents, environments, sessions } = new Anthropic().beta

const agent = await agents.create({
  name: 'first agent',
  model: process.env.MODEL ?? 'demo',
  system: 'You work on a Linux machine. Be brief.',
  tools: [{ type: 'agent_toolset_20260401' }],
})
const environment = await environments.create({
  name: 'without a network',
  config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: [] } },
})
const session = await sessions.create({ agent: agent.id, environment_id: environment.id, title: 'first session' })
console.log('session', session.id)

const stream = await sessions.events.stream(session.id)
await sessions.events.send(session.id, {
  events: [{ type: 'user.message', content: [{ type: 'text', text: 'Look around on your machine, and tell me what you see.' }] }],
})
for await (const event of stream) {
  if (event.type === 'agent.message') for (const block of event.content) console.log('agent:', block.text)
  if (event.type === 'agent.tool_use') console.log('uses', event.name, JSON.stringify(event.input))
  if (event.type === 'agent.tool_result') console.log('gets', event.content[0].text.split('\n')[0])
  if (event.type === 'session.status_idle') {
    console.log('rests:', event.stop_reason.type)
    break
  }
}
await sessions.archive(session.id)
