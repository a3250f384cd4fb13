/**
 * Runs in the virtual machine: commands of LVM that are killed in the middle, as by the kernel when memory runs out.
 * node killed-lvm-in-guest.ts [thin] DISK…    three disks on scsi, of 128 MiB
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Pool } from '../../../src/pool/pool.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { shell } from '../../support/disk-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { groupFor, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { keepErrors } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';
import { attach, idOf, mebibyte, patienceMs, presentDisks, spec, writeAll } from './layouts-scene.ts';

const isThin = process.argv.includes('thin');
const thinPool = { sizeBytes: 128n * mebibyte, metadataBytes: undefined, overcommit: 8 };
const killing = '/run/kill-lvm';

/** Puts a program of the same name before LVM, which dies at a random moment as long as `killing` is there. */
function killAtRandom(scratch: Scratch): void {
  const directory = scratch.join('bin');
  mkdirSync(directory);
  const script = `#!/bin/sh
if [ -e ${killing} ]; then
  n=$(od -An -N2 -tu2 /dev/urandom)
  if [ $((n % 2)) = 0 ]; then
    ms=$(printf %04d $((n / 2 % 1500)))
    exec timeout -s KILL \${ms%???}.\${ms#?} /usr/sbin/lvm "$@"
  fi
fi
exec /usr/sbin/lvm "$@"
`;
  writeFileSync(`${directory}/lvm`, script);
  chmodSync(`${directory}/lvm`, 0o755);
  process.env['PATH'] = `${directory}:${process.env['PATH'] ?? ''}`;
}

const layouts = ['linear', 'striped', 'raid1'] as const;

test('T03: commands of LVM are killed at random moments, and nothing is lost or left', async (t) => {
  using scratch = new Scratch('killed');
  const volumeGroup = groupFor(scratch, presentDisks());
  killAtRandom(scratch);
  const errors: string[] = [];
  const open = () =>
    openTestLvm(scratch, volumeGroup, { log: keepErrors(errors), ...(isThin ? { thinPool } : { wipe: 'zero' }) });
  const there = new Set<string>();
  const told = new Map<string, number>();
  let done = 0;
  for (let round = 0; round < 3; round++) {
    let pool: Pool = await open();
    writeFileSync(killing, '');
    const attempt = async (work: () => Promise<unknown>): Promise<boolean> => {
      try {
        await work();
        done++;
        return true;
      } catch (error) {
        const text = String(error)
          .replaceAll(/vol-\S+|snap-\S+|\d+/g, '#')
          .slice(0, 160);
        told.set(text, (told.get(text) ?? 0) + 1);
        return false;
      }
    };
    for (let at = 0; at < 6; at++) {
      const name = `v-${round}-${at}`;
      const layout = isThin ? 'linear' : (layouts[at % 3] ?? 'linear');
      if (await attempt(() => pool.create(spec(name, { layout, sizeBytes: 8n * mebibyte })))) there.add(name);
      else continue;
      await attempt(async () => {
        const attachment = await attach(pool, name);
        writeAll(attachment.devicePath, name);
        await pool.detach(attachment);
      });
      await attempt(() => pool.grow(idOf(name), 16n * mebibyte));
      const id = snapshotIdFor('node', name);
      if (await attempt(() => pool.takeSnapshots([{ id, name, sourceId: idOf(name), parameters: {} }])))
        await attempt(() => pool.removeSnapshot(id));
      if (at % 2 === 0 && (await attempt(() => pool.remove(idOf(name))))) there.delete(name);
    }
    rmSync(killing);
    await pool.close();
    t.diagnostic(
      shell(
        'dmsetup info --columns --noheadings -o name,suspended,open,tables_loaded; lvm lvs -a -o lv_name,lv_attr,lv_tags | cut -c 1-100',
      ),
    );
    pool = await open();
    assert.doesNotMatch(shell('dmsetup info'), /State: +SUSPENDED/);
    const names = (await pool.list(undefined, undefined)).map((record) => record.name);
    for (const name of there) assert.ok(names.includes(name), `${name} is lost`);
    for (const name of names) {
      const attachment = await attach(pool, name);
      writeAll(attachment.devicePath, name);
      await pool.detach(attachment);
      await pool.remove(idOf(name));
    }
    for (const { id } of await pool.listSnapshots(undefined, undefined)) await pool.removeSnapshot(id);
    there.clear();
    await eventually(() => {
      const all = lvm('lvs', '--noheadings', '--all', '-o', 'lv_name', volumeGroup).trim().split(/\s+/);
      const left = all.filter((name) => !/^\[?(holdfast-|lvol0_pmspare)/.test(name));
      assert.deepEqual(left, [], `nothing of LVM is left: ${errors.slice(-3).join('; ')}`);
    }, patienceMs);
    await pool.close();
  }
  t.diagnostic(`${done} done; ${[...told].map(([text, count]) => `${count} × ${text}`).join('\n')}`);
  t.diagnostic([...new Set(errors)].join('\n'));
});
