import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Aborted } from '../errors.ts';
import { ObjectQueue } from './object-queue.ts';

/** A promise that the test resolves by hand. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

describe('one call at a time for one volume', () => {
  test('K01 T01: 50 equal calls share one run and one result', async () => {
    const objects = new ObjectQueue();
    let runs = 0;
    const calls = Array.from({ length: 50 }, () =>
      objects.run('vol', 'CreateVolume', 'same', async () => {
        await Promise.resolve();
        return ++runs;
      }),
    );
    assert.deepEqual(await Promise.all(calls), Array(50).fill(1));
    assert.equal(objects.busy('vol'), false);
  });

  test('K01 T01: the same RPC that asks for something else has a run and a result of its own', async () => {
    const objects = new ObjectQueue();
    const first = gate();
    const a = objects.run('vol', 'ControllerExpandVolume', 'to 1Gi', async () => {
      await first.opened;
      return 1;
    });
    const b = objects.run('vol', 'ControllerExpandVolume', 'to 2Gi', async () => 2);
    first.open();
    assert.deepEqual(await Promise.all([a, b]), [1, 2]);
  });

  test('K01: a different call waits its turn', async () => {
    const objects = new ObjectQueue();
    const order: string[] = [];
    const first = gate();
    const a = objects.run('vol', 'NodeStageVolume', 'a', async () => {
      await first.opened;
      order.push('a');
    });
    const b = objects.run('vol', 'NodePublishVolume', 'b', async () => order.push('b'));
    const c = objects.run('vol', 'DeleteVolume', 'c', async () => order.push('c'));
    first.open();
    await Promise.all([a, b, c]);
    assert.deepEqual(order, ['a', 'b', 'c']);
  });

  test('K01: a call that waited too long gets ABORTED, and the next still does not overtake the first', async () => {
    const objects = new ObjectQueue(5);
    const first = gate();
    let running = 0;
    const alone = async () => {
      assert.equal(++running, 1);
      await first.opened;
      running--;
    };
    const a = objects.run('vol', 'NodeStageVolume', 'a', alone);
    await assert.rejects(objects.run('vol', 'DeleteVolume', 'b', alone), (error) => {
      assert.ok(error instanceof Aborted);
      assert.match(error.message, /vol.*NodeStageVolume/);
      return true;
    });
    await assert.rejects(objects.run('vol', 'DeleteVolume', 'c', alone), Aborted);
    first.open();
    await a;
    await objects.run('vol', 'DeleteVolume', 'd', alone);
  });

  test('T05: a call equal to one whose undoing waits in line does not share its result', async () => {
    const objects = new ObjectQueue();
    const first = gate();
    let isStaged = false;
    const stage = async () => {
      await first.opened;
      isStaged = true;
    };
    const calls = [
      objects.run('vol', 'NodeStageVolume', 'same', stage),
      objects.run('vol', 'NodeUnstageVolume', '', async () => {
        isStaged = false;
      }),
      objects.run('vol', 'NodeStageVolume', 'same', stage),
    ];
    first.open();
    await Promise.all(calls);
    assert.equal(isStaged, true);
  });

  test('a failure is shared, and forgotten', async () => {
    const objects = new ObjectQueue();
    const fail = async () => {
      await Promise.resolve();
      throw new Error('no');
    };
    const calls = [1, 2].map(() => objects.run('vol', 'DeleteVolume', '', fail));
    const outcomes = await Promise.allSettled(calls);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    assert.equal(await objects.run('vol', 'DeleteVolume', '', async () => 'yes'), 'yes');
  });

  test('K05: other volumes do not wait', async () => {
    const objects = new ObjectQueue();
    const first = gate();
    const a = objects.run('vol-a', 'CreateVolume', '', () => first.opened);
    assert.equal(await objects.run('vol-b', 'CreateVolume', '', async () => 'done'), 'done');
    first.open();
    await a;
  });

  test('K05: calls that only look share an object, and a call that changes it waits for all of them', async () => {
    const objects = new ObjectQueue();
    const order: string[] = [];
    const [first, second] = [gate(), gate()];
    const looking = [first, second].map(({ opened }, index) =>
      objects.claim([{ object: 'snap', isShared: true }], 'CreateVolume', async () => {
        order.push(`look ${index}`);
        await opened;
      }),
    );
    const change = objects.run('snap', 'DeleteSnapshot', '', async () => order.push('change'));
    const late = objects.claim([{ object: 'snap', isShared: true }], 'CreateVolume', async () => order.push('late'));
    second.open();
    await looking[1];
    first.open();
    await Promise.all([...looking, change, late]);
    assert.deepEqual(order, ['look 0', 'look 1', 'change', 'late']);
    assert.equal(objects.busy('snap'), false);
  });

  test('K03: a call that looks is told to come back while another one changes', async () => {
    const objects = new ObjectQueue(5);
    const first = gate();
    const cut = objects.run('snap', 'CreateSnapshot', '', () => first.opened);
    const look = objects.claim([{ object: 'snap', isShared: true }], 'CreateVolume', async () => 'looked');
    await assert.rejects(look, { name: Aborted.name, message: /snap.*CreateSnapshot/ });
    first.open();
    await cut;
  });

  test('K04: calls that need the same objects in other orders do not wait for each other', async () => {
    const objects = new ObjectQueue();
    const claims = ['c', 'a', 'b'].map((object) => ({ object }));
    let running = 0;
    const work = async () => {
      assert.equal(++running, 1);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    };
    const calls = Array.from({ length: 12 }, (_, call) => {
      const rotated = [...claims.slice(call % 3), ...claims.slice(0, call % 3)];
      return objects.claim(call % 2 === 0 ? rotated : rotated.toReversed(), 'CreateVolumeGroupSnapshot', work);
    });
    await Promise.all(calls);
    assert.equal(await objects.claim([], 'none', async () => 'done'), 'done');
  });
});
