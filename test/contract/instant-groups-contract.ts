import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { groupIdFor, memberIdFor } from '../../src/volume/id.ts';
import { Child } from '../support/child.ts';
import { isOneInstant } from '../support/counter.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { mounted, withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import type { PoolUnderTest } from './pool-contract.ts';

/** What a pool must do that takes snapshots of several volumes in use at one instant. */
export function describeInstantGroups(kind: string, { open }: PoolUnderTest): void {
  describe(`${kind}: groups in use`, () => {
    test('GR05: volumes of each filesystem that are written to are cut at one instant', async () => {
      using scratch = new Scratch('instant');
      const pool = await open(scratch);
      const sizeBytes = 320n << 20n;
      const specs = pool.traits.filesystems.map((fsType) =>
        volumeSpec(fsType, { content: { type: 'mount', fsType }, sizeBytes }),
      );
      const sources = [];
      for (const spec of specs) sources.push(await pool.create(spec));
      const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
      {
        await using users = new AsyncDisposableStack();
        const files: string[] = [];
        for (const { id } of sources) files.push(`${users.use(await mounted(pool, id, scratch)).path}/file`);
        // A line for each round, in the order of the volumes: whoever is cut later has as many lines, or one less.
        const round = files.map((file) => `echo line >> ${file}`).join('; ');
        users.use(
          await Child.start(['sh', '-c', `${round}; echo writing; while :; do ${round}; done`], { tells: true }),
        );
        await pool.takeSnapshots(
          sources.map(({ id }) => ({ id: memberIdFor(group.id, id), name: '', sourceId: id, parameters: {} })),
          group,
        );
      }
      const lines: bigint[] = [];
      for (const [index, { content, id }] of sources.entries()) {
        const member = memberIdFor(group.id, id);
        const spec = volumeSpec(`restored ${index}`, { content, sizeBytes });
        const restored = await pool.create(spec, { type: 'snapshot', id: member });
        await withMounted(pool, restored.id, scratch, (path) => {
          lines.push(BigInt(readFileSync(`${path}/file`, 'utf8').split('\n').length));
        });
      }
      assert.equal(lines.length, pool.traits.filesystems.length);
      assert.ok(isOneInstant(lines), `these are of several instants: ${lines}`);
      await pool.close();
    });
  });
}
