import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { ForgottenKeeper, settlesMs } from '../../src/fleet/controller/keepers/forgotten-keeper.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { keepCertificates } from '../../src/fleet/kubernetes/certificates.ts';
import { forgetNode, readForgotten } from '../../src/fleet/kubernetes/forgotten.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';

const log = pino({ level: 'silent' });
const place = { namespace: 'holdfast', name: 'holdfast-controller' };

describe('a node that an operator says is gone', () => {
  const scratch = new Scratch('forgotten');
  let double: ApiDouble;
  let api: KubernetesApi;
  let nowMs: number;

  function replica(): { readonly state: FleetState; readonly keeper: ForgottenKeeper } {
    const state = new FleetState(() => nowMs);
    state.expect(['a', 'b']);
    return { state, keeper: new ForgottenKeeper({ api, place, state, log, now: () => nowMs }) };
  }

  before(async () => {
    double = await ApiDouble.start();
    api = double.client(scratch);
    await keepCertificates(api, place);
  });

  after(async () => {
    api.close();
    await double[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  test('is not forgotten by any replica while one of them has a link to it', async () => {
    nowMs = Date.now();
    const [asked, linked] = [replica(), replica()];
    linked.state.linked('a');
    for (const { keeper } of [asked, linked]) await keeper.look();
    await forgetNode(api, place, 'a');
    await asked.keeper.look();
    assert.equal(asked.state.isForgotten('a'), false, 'the other replica has not been heard');
    assert.equal(asked.state.wasForgotten('a'), true, 'it gets no new link here');
    await linked.keeper.look();
    assert.equal((await readForgotten(api, place)).size, 0);
    nowMs += settlesMs;
    await asked.keeper.look();
    assert.equal(asked.state.wasForgotten('a'), false);
  });

  test('is forgotten when all have been heard, and stays so over a restart', async () => {
    nowMs = Date.now();
    const one = replica();
    await one.keeper.look();
    const { at } = await forgetNode(api, place, 'b');
    await one.keeper.look();
    nowMs += settlesMs - 1;
    const late = replica();
    await late.keeper.look();
    assert.equal(late.state.isForgotten('b'), false, 'a replica that has just started did not see it come');
    await one.keeper.look();
    assert.equal(one.state.isForgotten('b'), false);
    nowMs += 1;
    await one.keeper.look();
    assert.equal(one.state.isForgotten('b'), true);
    assert.deepEqual(await forgetNode(api, place, 'b'), { at }, 'said twice');
    nowMs += 10 * settlesMs;
    const restarted = replica();
    await restarted.keeper.look();
    assert.equal(restarted.state.isForgotten('b'), true);
  });
});
