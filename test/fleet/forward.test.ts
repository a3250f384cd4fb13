import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { methodsOf } from '../../src/csi/contract.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { forward } from '../../src/fleet/controller/forward.ts';
import { NodeSession } from '../../src/fleet/controller/node-session.ts';
import { Sessions } from '../../src/fleet/controller/sessions.ts';

/** Nodes that answer every call with this code; 0: it is done. */
function nodesThatSay(codes: Readonly<Record<string, number>>): Sessions {
  const state = new FleetState();
  const sessions = new Sessions(state);
  for (const [node, code] of Object.entries(codes)) {
    const session: NodeSession = new NodeSession(
      {
        send({ call }) {
          if (typeof call?.call !== 'bigint') return;
          const answer = { call: call.call, code, message: `${node} says so`, response: Buffer.from(node) };
          setImmediate(() => session.calls.answered(answer));
        },
        onMessage: () => undefined,
        onEnd: () => undefined,
        end: () => undefined,
      },
      {
        node,
        driverName: 'test',
        controller: 'test',
        instance: 'test',
        hasOther: () => false,
        state,
        log: pino({ level: 'silent' }),
        renew: async () => undefined,
        onReady: () => undefined,
        onEnd: () => undefined,
      },
    );
    sessions.ready(session);
  }
  return sessions;
}

const [done, notFound, unavailable] = [0, 5, 14];
const method = methodsOf('csi.v1.Controller').find(({ name }) => name === 'DeleteVolume') ?? assert.fail();
const call = { method, request: Buffer.alloc(0), deadline: undefined };
const toAll = (codes: Readonly<Record<string, number>>) =>
  forward(nodesThatSay(codes), { to: 'all', nodes: Object.keys(codes) }, call);

test('what nobody is known to have is gone only if each node says so', async () => {
  assert.equal((await toAll({ a: done, b: done })).toString(), 'a');
  await assert.rejects(toAll({ a: notFound, b: notFound }), { code: 'NOT_FOUND' });
  await assert.rejects(toAll({ a: done, b: unavailable }), { code: 'UNAVAILABLE' });
  await assert.rejects(toAll({ a: notFound, b: unavailable }), { code: 'UNAVAILABLE' });
  await assert.rejects(toAll({ a: unavailable, b: notFound }), { code: 'UNAVAILABLE' });
});

test('one that has it after all answers for all', async () => {
  assert.equal((await toAll({ a: notFound, b: done })).toString(), 'b');
});
