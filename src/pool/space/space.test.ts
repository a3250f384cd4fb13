import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  chooseToPurge,
  computeCapacity,
  defaultReserveBytes,
  freeInBackingFile,
  ownedBytes,
  slackBytes,
} from './space.ts';

const gib = 1n << 30n;
const use = {
  filesystemBytes: 100n * gib,
  freeBytes: 90n * gib,
  reserveBytes: 1n * gib,
  overcommit: 1,
  provisionedBytes: 0n,
  ownedBytes: 0n,
  usedBytes: 0n,
  reclaimableBytes: 0n,
  heldBytes: 0n,
};

describe('GC04: what a pool can promise', () => {
  test('an empty pool promises what is free less the reserve', () => {
    assert.equal(computeCapacity(use).availableBytes, 89n * gib);
  });

  test('a thin volume counts with what it may still claim, not with what it takes now', () => {
    const volume = { provisionedBytes: 50n * gib, ownedBytes: 5n * gib, usedBytes: 5n * gib };
    const capacity = computeCapacity({ ...use, ...volume, freeBytes: 85n * gib });
    assert.equal(capacity.availableBytes, 39n * gib);
    assert.equal(capacity.provisionedBytes, 50n * gib);
    assert.equal(capacity.usedBytes, 5n * gib);
  });

  test('writing to a thin volume changes nothing: the space was promised', () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 50n * gib), (written) => {
        const volume = { provisionedBytes: 50n * gib, ownedBytes: written, usedBytes: written };
        const { availableBytes } = computeCapacity({ ...use, ...volume, freeBytes: use.freeBytes - written });
        assert.equal(availableBytes, 39n * gib);
      }),
    );
  });

  test('a volume that shares its blocks with a snapshot may have to write all of them anew', () => {
    const shares = ownedBytes(50n * gib, { allocatedBytes: 5n * gib, sharedBytes: 5n * gib });
    const volume = { provisionedBytes: 50n * gib, ownedBytes: shares, usedBytes: 5n * gib };
    const { availableBytes } = computeCapacity({ ...use, ...volume, freeBytes: 85n * gib });
    assert.equal(availableBytes, 34n * gib);
  });

  test('what lies beyond the size of a volume, or was shared twice, is nothing that it owns', () => {
    assert.equal(ownedBytes(4n, { allocatedBytes: 9n, sharedBytes: 1n }), 4n);
    assert.equal(ownedBytes(4n, { allocatedBytes: 1n, sharedBytes: 3n }), 0n);
  });

  test('the trash counts as available', () => {
    assert.equal(computeCapacity({ ...use, reclaimableBytes: 5n * gib }).availableBytes, 94n * gib);
  });

  test('volumes being made count as made', () => {
    assert.equal(computeCapacity({ ...use, heldBytes: 10n * gib }).availableBytes, 79n * gib);
  });

  test('L11: never negative, also when others filled the disk', () => {
    const { availableBytes } = computeCapacity({ ...use, freeBytes: 2n * gib, provisionedBytes: 50n * gib });
    assert.equal(availableBytes, 0n);
  });

  test('overcommit adds a share of the total', () => {
    const { availableBytes, totalBytes } = computeCapacity({ ...use, overcommit: 1.5 });
    assert.equal(availableBytes, 89n * gib + totalBytes / 2n);
  });

  test('overcommit: a thick volume takes its blocks at once, so they must be there', () => {
    const { availableBytes, thickAvailableBytes } = computeCapacity({ ...use, overcommit: 3, freeBytes: 30n * gib });
    assert.equal(thickAvailableBytes, 29n * gib);
    assert.ok(availableBytes > thickAvailableBytes);
    const held = computeCapacity({ ...use, overcommit: 3, freeBytes: 30n * gib, heldBytes: 10n * gib });
    assert.equal(held.thickAvailableBytes, 19n * gib);
  });

  test('the size of a pool is the same whoever of it takes the space; what others have is not its own', () => {
    for (const usedBytes of [0n, 5n * gib, 40n * gib]) {
      const { totalBytes } = computeCapacity({ ...use, freeBytes: 90n * gib - usedBytes, usedBytes });
      assert.equal(totalBytes, 89n * gib);
    }
  });

  test('the default reserve is 2 % within bounds', () => {
    assert.equal(defaultReserveBytes(10n * gib), (10n * gib) / 50n);
    assert.equal(defaultReserveBytes(1000n * gib), gib);
    assert.equal(defaultReserveBytes(100n << 20n), 16n << 20n);
  });

  test('a sparse backing file is no larger than what its host has left', () => {
    const inside = { freeBytes: 9n * gib, backingSizeBytes: 10n * gib, backingAllocatedBytes: 0n };
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 50n * gib }), 9n * gib);
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 4n * gib }), 3n * gib);
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 0n }), 0n);
  });
});

describe('what goes from the trash when its space is needed', () => {
  const gives = (...sizes: number[]) => sizes.map((size, entry) => ({ entry, givesBytes: BigInt(size) }));

  test('what was deleted first goes first', () => {
    assert.deepEqual(chooseToPurge(gives(5, 5, 5), 5n), [0]);
    assert.deepEqual(chooseToPurge(gives(5, 5, 5), 6n), [0, 1]);
  });

  test('nothing goes that gives nothing, or that is not needed because another one has to go anyway', () => {
    assert.deepEqual(chooseToPurge(gives(0, 5, 0), 5n), [1]);
    assert.deepEqual(chooseToPurge(gives(1, 2, 100), 100n), [2]);
    assert.deepEqual(chooseToPurge(gives(0, 5), 6n), [1]);
  });

  test('enough goes, and none of it could stay', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(100), { maxLength: 12 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (sizes, part) => {
          const needed = BigInt(Math.floor(sizes.reduce((sum, size) => sum + size, 0) * part));
          const chosen = chooseToPurge(gives(...sizes), needed).map((entry) => BigInt(sizes[entry] ?? 0));
          const sum = chosen.reduce((total, size) => total + size, 0n);
          assert.ok(sum >= needed);
          for (const size of chosen) assert.ok(sum - size < needed);
        },
      ),
    );
  });
});

interface Block {
  sharers: number;
}
/** A volume of a few blocks: undefined is a hole. */
type Volume = (Block | undefined)[];

describe('the model: what is free covers all that volumes may yet write', () => {
  const action = fc.oneof(
    fc.record({ what: fc.constant('write' as const), volume: fc.nat(9), block: fc.nat(7) }),
    fc.record({ what: fc.constant('trim' as const), volume: fc.nat(9), block: fc.nat(7) }),
    fc.record({ what: fc.constant('create' as const), volume: fc.nat(9), block: fc.nat(7) }),
    fc.record({ what: fc.constant('clone' as const), volume: fc.nat(9), block: fc.nat(7) }),
    fc.record({ what: fc.constant('snapshot' as const), volume: fc.nat(9), block: fc.nat(7) }),
    fc.record({ what: fc.constant('remove' as const), volume: fc.nat(9), block: fc.nat(7) }),
  );

  test('no write meets a full disk, whatever was granted before it; no write or trim changes what can be promised', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
        let free = 24;
        const volumes: Volume[] = [];
        const snapshots: Volume[] = [];
        const owned = (volume: Volume) =>
          ownedBytes(BigInt(volume.length), {
            allocatedBytes: BigInt(volume.filter((block) => block !== undefined).length),
            sharedBytes: BigInt(volume.filter((block) => block !== undefined && block.sharers > 1).length),
          });
        const slack = () => {
          const provisionedBytes = volumes.reduce((sum, volume) => sum + BigInt(volume.length), 0n);
          const own = volumes.reduce((sum, volume) => sum + owned(volume), 0n);
          const sight = { ...use, filesystemBytes: 24n, freeBytes: BigInt(free), reserveBytes: 0n };
          return slackBytes({ ...sight, provisionedBytes, ownedBytes: own });
        };
        const drop = (block: Block | undefined) => {
          if (block !== undefined && --block.sharers === 0) free++;
        };
        const share = (volume: Volume) =>
          volume.map((block) => {
            if (block !== undefined) block.sharers++;
            return block;
          });
        for (const { what, volume: index, block: at } of actions) {
          const volume = volumes[index % Math.max(1, volumes.length)];
          const before = slack();
          if (what === 'create' && before >= BigInt(at + 1)) volumes.push(Array(at + 1).fill(undefined));
          if (volume === undefined) continue;
          if (what === 'clone' && before >= owned(volume) + BigInt(volume.length)) volumes.push(share(volume));
          if (what === 'snapshot' && before >= owned(volume)) snapshots.push(share(volume));
          if (what === 'remove')
            (snapshots.shift() ?? volumes.splice(volumes.indexOf(volume), 1)[0] ?? []).forEach(drop);
          if (at >= volume.length || (what !== 'write' && what !== 'trim')) continue;
          const block = volume[at];
          if (what === 'write' && block?.sharers !== 1) {
            drop(block);
            assert.ok(free > 0, 'ENOSPC');
            free--;
            volume[at] = { sharers: 1 };
          }
          if (what === 'trim') {
            drop(block);
            volume[at] = undefined;
          }
          // A block that two volumes shared is the other's own when one has let go of it: never less can be promised.
          assert.ok(slack() >= before);
        }
        assert.ok(slack() >= 0n);
      }),
    );
  });
});
