import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { CommandError } from '../../../../command/run.ts';
import { type LvmRunner, newEnough } from './place.ts';

describe('which LVM is used', () => {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-place-'));
  after(() => rmSync(directory, { recursive: true }));

  /** An LVM that answers what a shell does. */
  function lvmThat(does: string): LvmRunner {
    const program = join(directory, `${does.replace(/\W+/g, '-')}.sh`);
    writeFileSync(program, `#!/bin/sh\n${does}\n`, { mode: 0o755 });
    return { place: 'host', program, before: [], environment: {} };
  }
  const lvmOf = (version: string) => lvmThat(`echo "  LVM version:     ${version}(2) (2021-01-08)"`);

  test('lvm 11: the driver has its own used where that of the host is too old, and the own one is not', async () => {
    const [old, older, newer] = [lvmOf('2.03.11'), lvmOf('2.02.188'), lvmOf('2.03.16')];
    assert.equal(await newEnough(newer, () => assert.fail()), newer);
    assert.equal(await newEnough(old, async () => newer), newer);
    assert.equal(await newEnough(old, async () => older), old);
  });

  test('H18: not where the version of the host could not be read', async () => {
    const own = async () => lvmOf('2.03.16');
    for (const does of ['exit 1', 'kill -9 $$', 'true', 'echo no memory']) {
      await assert.rejects(newEnough(lvmThat(does), own), CommandError, does);
    }
    await assert.rejects(newEnough({ ...lvmThat('true'), program: join(directory, 'none') }, own), /is not installed/);
  });

  test('H43: the own one also where that of the host cannot be executed, or misses a library', async () => {
    const newer = lvmOf('2.03.16');
    for (const exitCode of [126, 127]) {
      const host = lvmThat(`exit ${exitCode}`);
      assert.equal(await newEnough(host, async () => newer), newer);
      assert.equal(await newEnough(host, async () => lvmThat('exit 127')), host);
    }
    const old = lvmOf('2.03.11');
    const missing = { ...newer, program: join(directory, 'none') };
    for (const own of [lvmThat('exit 127'), missing]) assert.equal(await newEnough(old, async () => own), old);
  });
});
