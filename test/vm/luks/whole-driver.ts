import assert from 'node:assert/strict';
import { CallError } from '../../support/client.ts';
import { eventually } from '../../support/eventually.ts';
import { longestMessageCharacters, openingQuotes, quotesOf } from '../../support/troubleshooting.ts';
import { checksumOf, contentOf } from '../machine/content.ts';
import type { StartedNode } from '../node/start-node.ts';
import { EncryptedClaim } from './encrypted-claim.ts';
import { assertNowhere, newFindableKey } from './key-hunt.ts';

const mebibyte = 1n << 20n;
const file = { seed: 3, sizeBytes: 300_000 };
const started = '/run/cryptsetup-started';

/** The driver of such a node says all that it has to say. */
export const setup = {
  config: 'pools: { default: { device: /dev/vdb, sickAfter: 10m } }\n',
  pools: ['default'],
  disks: [{ name: 'pool', sizeGiB: 4 }],
  environment: { HOLDFAST_LOG_LEVEL: 'trace' },
  // A program before cryptsetup that notes how it is started, and then becomes it.
  prepare: [
    `printf '%s\\n' '#!/bin/sh' '{ echo "$@"; env; } >>${started}' 'exec /usr/sbin/cryptsetup "$@"' >/usr/local/sbin/cryptsetup`,
    'chmod 755 /usr/local/sbin/cryptsetup',
  ].join(' && '),
};

/** A volume's whole life with keys from Secrets, by gRPC, and everything that is said meanwhile. */
export async function liveEncrypted({ node, scratch }: StartedNode): Promise<void> {
  const { vm } = node;
  const [first, second, wrong] = [newFindableKey(), newFindableKey(), newFindableKey()];
  const errors: string[] = [];
  const refuses = async (code: string, call: Promise<unknown>): Promise<string> => {
    const error = await call.then(
      () => assert.fail('nothing was refused'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof CallError, `${error}`);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.length <= longestMessageCharacters, error.message);
    assert.equal(quotesOf(error.message).length, 1, `docs/troubleshooting.md does not have it: ${error.message}`);
    errors.push(error.message);
    return error.message;
  };
  const isWhole = async (claim: EncryptedClaim) => {
    const path = `${claim.targetPath}/file`;
    const checksum = checksumOf(contentOf(file.seed, file.sizeBytes));
    assert.deepEqual(await vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [checksum]);
  };
  const mappers = () => vm.run('ls /sys/block | grep ^dm- || true');

  const claim = new EncryptedClaim(node, 'claim', 32n * mebibyte);
  await refuses('INVALID_ARGUMENT', claim.create({}));
  await refuses('INVALID_ARGUMENT', claim.create({ passphrase: first, key: second }));
  await claim.create({ key: first });
  await claim.create({ key: first });
  await refuses('INVALID_ARGUMENT', claim.stage({}));
  await refuses('FAILED_PRECONDITION', claim.stage({ key: wrong }));
  assert.equal(await mappers(), '');

  // In use: it is written, grows with its filesystem, and stays while the driver is killed and started anew.
  await claim.stage({ key: first });
  await claim.publish();
  await vm.task('write', { ...file, path: `${claim.targetPath}/file` });
  await claim.expand(64n * mebibyte, {});
  const shownMiB = Number(await vm.run(`df --output=size --block-size=1M ${claim.targetPath} | tail -n 1`));
  assert.ok(shownMiB > 48, `the mounted filesystem has ${shownMiB} MiB`);
  await node.kill();
  await node.start();
  await isWhole(claim);
  await claim.stage({ key: first });
  await claim.expand(96n * mebibyte, { key: first });
  const snapshotId = await claim.snapshot('before');
  await claim.unpublish();
  await claim.unstage();
  await eventually(async () => assert.equal(await mappers(), ''));

  // Another key; what was taken before needs the one of before.
  await claim.stage({ key: second, previousKey: first });
  await claim.unstage();
  const refused = await refuses('FAILED_PRECONDITION', claim.stage({ key: first }));
  const pool = `${node.dataDirectory}/pools/default`;
  const record = await vm.run(`cat ${pool}/volumes/${claim.id}/volume.json`);
  const ofSnapshot = await vm.run(`cat ${pool}/snapshots/${snapshotId}/snapshot.json`);
  const keyOf = (text: string): string => JSON.parse(text).encryption.keyId;
  assert.ok(refused.includes(keyOf(record)), refused);
  const restored = new EncryptedClaim(node, 'restored', 96n * mebibyte);
  const source = { snapshot: { snapshot_id: snapshotId } };
  const refusedCopy = await refuses('FAILED_PRECONDITION', restored.create({ key: second }, source));
  assert.ok(refusedCopy.includes(keyOf(ofSnapshot)), refusedCopy);
  assert.notEqual(keyOf(ofSnapshot), keyOf(record));
  await restored.create({ key: first }, source);
  await restored.stage({ key: first });
  await restored.publish();
  await isWhole(restored);
  await restored.unpublish();
  await restored.unstage();

  // What is not ours to take away, and what is broken, is told and left as it is.
  const name = `holdfast-${claim.id}`;
  const loop = (await vm.run('truncate --size=1M /data/other && losetup --find --show /data/other')).trim();
  await vm.run(`dmsetup create ${name} --table '0 2048 linear ${loop} 0'`);
  await refuses('FAILED_PRECONDITION', claim.stage({ key: second }));
  await vm.run(`dmsetup remove ${name} && losetup --detach ${loop} && dmsetup create ${name} --table '0 2048 error'`);
  await refuses('FAILED_PRECONDITION', claim.stage({ key: second }));
  await vm.run(`dmsetup remove ${name}`);
  const image = `${pool}/volumes/${claim.id}/data`;
  await vm.run(`dd if=/dev/zero of=${image} bs=1M count=1 conv=notrunc,fsync`);
  await refuses('DATA_LOSS', claim.stage({ key: second }));
  for (const quote of openingQuotes) {
    assert.ok(
      errors.some((error) => quotesOf(error).includes(quote)),
      `nothing says: ${quote}`,
    );
  }

  for (const each of [claim, restored]) await each.delete();
  await node.client.controller.DeleteSnapshot({ snapshot_id: snapshotId });
  await eventually(async () => assert.equal(await mappers(), ''));
  const arguments_ = await vm.run(`cat ${started}`);
  await node.kill();
  await vm.run('sync');
  assert.match(node.log(), /NodeStageVolume/);
  const texts = {
    'the log': node.log(),
    'an error': errors.join('\n'),
    'what cryptsetup was started with': arguments_,
    'a record': record + ofSnapshot,
  };
  const disks = ['system', 'pool'].map((disk) => scratch.join(`${disk}.disk`));
  assertNowhere([first, second, wrong], texts, scratch, disks);
}
