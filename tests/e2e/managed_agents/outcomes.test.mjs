// Outcomes: work that is judged by a rubric, and done again until it is good or has been tried often enough.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, refused, said, say, stop, turn } from './support.mjs'

const outcome = (description, more = {}) => ({ type: 'user.define_outcome', description, rubric: { type: 'text', content: 'it is blue' }, ...more })

test('work is judged, revised and accepted', async () => {
  const session = await made()
  const events = await turn(session, [outcome('paint a door')])
  assert.deepEqual(said(events), ['A red door.', 'A blue door.'])
  const [echo] = of(events, 'user.define_outcome')
  assert.match(echo.outcome_id, /^outc_/)
  assert.deepEqual([echo.max_iterations, echo.rubric], [3, { type: 'text', content: 'it is blue' }])
  const starts = of(events, 'span.outcome_evaluation_start')
  const ends = of(events, 'span.outcome_evaluation_end')
  assert.deepEqual(starts.map((each) => [each.iteration, each.outcome_id]), [[0, echo.outcome_id], [1, echo.outcome_id]])
  assert.deepEqual(ends.map((each) => [each.result, each.explanation]), [['needs_revision', 'it is red'], ['satisfied', 'it is blue']])
  assert.deepEqual(ends.map((each) => each.outcome_evaluation_start_id), starts.map((each) => each.id))
  assert.ok(ends[0].usage.output_tokens > 0)
  assert.deepEqual(stop(events), { type: 'end_turn' })
  assert.deepEqual(await all(beta.sessions.events.list(session.id)), events)

  const [shown] = (await beta.sessions.retrieve(session.id)).outcome_evaluations
  assert.deepEqual([shown.outcome_id, shown.result, shown.iteration, shown.explanation], [echo.outcome_id, 'satisfied', 1, 'it is blue'])
  assert.ok(shown.completed_at)
})

test('it is not judged for ever', async () => {
  const session = await made()
  const events = await turn(session, [outcome('never good', { max_iterations: 2 })])
  assert.deepEqual(of(events, 'span.outcome_evaluation_end').map((each) => each.result), ['needs_revision', 'max_iterations_reached'])
  assert.deepEqual(said(events).at(-1), 'It stays grey.')
  const [shown] = (await beta.sessions.retrieve(session.id)).outcome_evaluations
  assert.equal(shown.result, 'max_iterations_reached')
})

test('initial events may define an outcome', async () => {
  const session = await made({ session: { initial_events: [outcome('paint a door')] } })
  for (;;) {
    const now = await beta.sessions.retrieve(session.id)
    if (now.status === 'idle') {
      assert.equal(now.outcome_evaluations[0].result, 'satisfied')
      break
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})

test('an interrupt gives it up', async () => {
  const session = await made()
  const stream = await beta.sessions.events.stream(session.id)
  const { data: [echo] } = await beta.sessions.events.send(session.id, { events: [outcome('for ever')] })
  assert.match(echo.outcome_id, /^outc_/)
  for await (const event of stream) {
    if (event.type === 'agent.tool_use') {
      await refused(beta.sessions.events.send(session.id, { events: [outcome('another')] }), 400, 'BadRequestError', /outcome already/)
      await beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt' }] })
    }
    if (event.type === 'session.status_idle') break
  }
  assert.equal((await beta.sessions.retrieve(session.id)).outcome_evaluations[0].result, 'interrupted')
})

test('what is wrong with an outcome is said', async () => {
  const session = await made()
  const send = (event) => beta.sessions.events.send(session.id, { events: [event] })
  await refused(send(outcome('')), 400, 'BadRequestError', /description/)
  await refused(send({ type: 'user.define_outcome', description: 'x' }), 400, 'BadRequestError', /rubric/)
  const before = (await all(beta.sessions.list())).length
  await refused(made({ session: { initial_events: [outcome('one'), outcome('two')] } }), 400, 'BadRequestError', /one outcome/)
  assert.equal((await all(beta.sessions.list())).length, before, 'a refused request leaves no session')
  await refused(send(outcome('x', { max_iterations: 21 })), 400, 'BadRequestError', /max_iterations/)
  await refused(send(outcome('x', { rubric: { type: 'text', content: 'x'.repeat(262_145) } })), 400, 'BadRequestError', /rubric/)
  assert.deepEqual(await all(beta.sessions.events.list(session.id)), [])
})
