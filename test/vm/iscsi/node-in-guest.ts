/** Runs in the virtual machine: PersistentVolumes that name a logical unit of the kernel's iSCSI target. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { deleteLun, type IscsiSession, scanLun } from '../../../src/kernel/block/iscsi.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { iscsiNodeKind } from '../../../src/pool/kinds/iscsi/kind.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { blockCapability, mountCapability } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import { directory, endSessions, iqn, nothingLeft as nothingLeftOf, sessions, target } from './guest.ts';

const portals = '127.0.0.1:3260';
type Context = Readonly<Record<string, string>>;
const contextOf = (lun: string): Context => ({ kind: 'iscsi', iqn, portals, lun, replacementTimeout: '5' });

const lunsOf = (each: IscsiSession) => each.luns.map(({ lun }) => lun);
const xfs = mountCapability('SINGLE_NODE_WRITER', [], 'xfs');
const ext4 = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');

let harness: ContextHarness;

before(() => {
  target('make');
  target('backing', directory, 'first', 'xfs');
  target('backing', directory, 'second', 'ext4');
  target('backing', directory, 'other', 'xfs');
  target('map', '1', 'first');
  target('map', '2', 'second');
});
beforeEach(async () => {
  harness = await ContextHarness.open([iscsiNodeKind]);
});
afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await endSessions();
});

const nothingLeft = () => nothingLeftOf(harness);

describe('a node with open-iscsi', () => {
  test('is found fit, unless its daemon does not run', async () => {
    const look = () => iscsiNodeKind.checkNode?.(new DiskQueue('check', 1));
    assert.deepEqual(await look(), [{ check: 'iSCSI', status: 'ok', detail: 'open-iscsi 2.1.8' }]);
    target('iscsid', 'stop');
    assert.match(JSON.stringify(await look()), /"fail".*iscsid does not run/);
    const volume = harness.volume('no daemon', xfs);
    await refused(volume.stage({ volume_context: contextOf('1') }), 'UNAVAILABLE', /iscsid of the node does not run/);
    target('iscsid', 'start');
    await nothingLeft();
  });
});

describe('a logical unit', () => {
  test('is logged in to while its volume is staged, and a target as long as one of its volumes is', async () => {
    const one = harness.volume('one', xfs);
    const other = harness.volume('other', ext4);
    await one.up(contextOf('1'));
    assert.deepEqual(sessions().map(lunsOf), [['1']]);
    await other.up(contextOf('2'));
    assert.deepEqual(sessions().map(lunsOf), [['1', '2']]);
    writeFileSync(join(one.target, 'file'), 'data');
    await one.down();
    assert.deepEqual(sessions().map(lunsOf), [['2']]);
    assert.deepEqual(
      harness.notes().map(({ handle }) => handle),
      ['other'],
    );
    assert.equal((await other.stats()).volume_condition?.abnormal, false);
    await other.down();
    await nothingLeft();
    await one.up(contextOf('1'));
    assert.equal(readFileSync(join(one.target, 'file'), 'utf8'), 'data');
    await one.down();
    await nothingLeft();
  });

  test('is let go by a driver that was started since, also if it was not mounted any more', async () => {
    const volume = harness.volume('iqn-like:handle/1', xfs);
    await volume.up(contextOf('1'));
    await harness.restart();
    await volume.stats();
    await volume.unpublish();
    await harness.stop();
    execFileSync('umount', [volume.staging]);
    await harness.start();
    await volume.unstage();
    await nothingLeft();
  });

  test('is a raw block device', async () => {
    const volume = harness.volume('raw', blockCapability());
    await volume.up(contextOf('2'));
    await harness.restart();
    await volume.down();
    await nothingLeft();
  });

  test('grows when its target has grown it, and is told if that has not', async () => {
    const volume = harness.volume('grows', xfs);
    await volume.up(contextOf('1'));
    await refused(volume.expand(1n << 30n), 'OUT_OF_RANGE', /grow it on the target first/);
    target('grow', directory, 'first', '640M');
    assert.deepEqual(await volume.expand(640n << 20n), { capacity_bytes: 640n << 20n });
    const [{ total } = { total: 0n }] = (await volume.stats()).usage;
    assert.ok(total > 500n << 20n, `${total}`);
    await volume.down();
    await nothingLeft();
  });

  test('is refused if the target has none of that number, knows no such iqn, or does not listen', async () => {
    const volume = harness.volume('missing', xfs);
    const cases: readonly (readonly [Context, string, RegExp])[] = [
      [{ lun: '7' }, 'NOT_FOUND', /has no logical unit 7 for this node/],
      [{ iqn: `${iqn}2` }, 'UNAVAILABLE', /is the iqn right\?|has no such iqn here/],
      [
        { portals: '127.0.0.1:3261,127.0.0.2:3260' },
        'UNAVAILABLE',
        /127.0.0.1:3261 cannot be reached \(ECONNREFUSED\)/,
      ],
    ];
    for (const [changes, code, message] of cases) {
      await refused(volume.stage({ volume_context: { ...contextOf('1'), ...changes } }), code, message);
      await nothingLeft();
    }
  });

  test('is used by one portal if the other is away', async () => {
    const volume = harness.volume('two portals', xfs);
    const volume_context = { ...contextOf('1'), portals: '', targetPortal: '127.0.0.1:3261' };
    volume_context.portals = '["127.0.0.1"]';
    await volume.stage({ volume_context });
    await volume.unstage();
    await nothingLeft();
  });

  test('stays at the portal that it has while it is in use, and has another one the next time', async () => {
    const [lost, other] = ['10.99.0.1', '127.0.0.1'];
    target('second-up');
    const volume = harness.volume('portal lost', xfs);
    const volume_context = { ...contextOf('1'), portals: `${lost},${other}`, replacementTimeout: '86400' };
    const used = () => sessions().map(({ portal }) => portal?.address);
    await volume.up(volume_context);
    assert.deepEqual(used(), [lost]);
    const path = join(volume.target, 'portal');
    writeFileSync(path, 'acknowledged', { flush: true });
    target('second-down');
    await eventually(async () => {
      assert.match((await volume.stats()).volume_condition?.message ?? '', /No connection to the target/);
    }, 60_000);
    assert.deepEqual(used(), [lost]);
    await volume.unpublish();
    await eventually(async () => void (await volume.unstage()), 300_000);
    await nothingLeft();
    await volume.up(volume_context);
    assert.deepEqual(used(), [other]);
    assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
    await volume.down();
    await nothingLeft();
  });

  test('is refused for writing where the target lets nobody write, and read', async () => {
    target('backing', directory, 'protected', 'xfs', 'protected');
    target('map', '4', 'protected');
    const volume = harness.volume('protected', xfs);
    await refused(
      volume.stage({ volume_context: contextOf('4') }),
      'FAILED_PRECONDITION',
      /^volume protected: its device is write-protected\. Allow writing on its target/,
    );
    await nothingLeft();
    const reader = harness.volume('reader', mountCapability('SINGLE_NODE_WRITER', ['ro'], 'xfs'));
    await reader.up(contextOf('4'));
    assert.deepEqual(readdirSync(reader.target), []);
    assert.equal((await reader.stats()).volume_condition?.abnormal, false);
    await reader.down();
    await nothingLeft();
    target('unmap', '4');
  });

  test('is refused if it is another one than the PersistentVolume names, and if it becomes one', async () => {
    const volume = harness.volume('reused', xfs);
    await volume.up(contextOf('1'));
    const [first] = sessions()[0]?.luns ?? [];
    const wwid = readFileSync(`/sys/block/${first?.name}/device/wwid`, 'utf8').trim();
    await volume.down();
    const volume_context = { ...contextOf('1'), wwid };
    await volume.up(volume_context);
    // The target gives the number away while the volume is in use.
    await volume.unpublish();
    execFileSync('umount', [volume.staging]);
    target('unmap', '1');
    target('map', '1', 'other');
    await refused(volume.stage({ volume_context }), 'FAILED_PRECONDITION', /has given the number to another volume/);
    await volume.unstage();
    await nothingLeft();
    await refused(volume.stage({ volume_context }), 'FAILED_PRECONDITION', /has given the number to another volume/);
    await nothingLeft();
    target('unmap', '1');
    target('map', '1', 'first');
    await volume.up(volume_context);
    await volume.down();
    await nothingLeft();
  });

  test('has nothing to do with sessions and devices of the host', async () => {
    target('host-login');
    const [host] = sessions();
    await eventually(() => assert.deepEqual(sessions().map(lunsOf), [['1', '2']]));
    const volume = harness.volume('shared', ext4);
    await volume.up(contextOf('2'));
    assert.equal(sessions().length, 2);
    await volume.down();
    assert.deepEqual(
      sessions().map(({ id, state }) => [id, state]),
      [[host?.id, 'LOGGED_IN']],
    );
    assert.deepEqual(sessions().map(lunsOf), [['1', '2']]);
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
    assert.deepEqual(readdirSync('/etc/iscsi/nodes'), [iqn]);
    // A second filesystem on it would destroy that of the host.
    const hosts = sessions()[0]?.luns.find(({ lun }) => lun === '2') ?? assert.fail();
    const place = harness.scratch.join('place');
    execFileSync('mkdir', [place]);
    execFileSync('mount', [hosts.devicePath, place]);
    const stage = volume.stage({ volume_context: contextOf('2') });
    await refused(stage, 'FAILED_PRECONDITION', /is the same logical unit as .* its ext4 is in use there/);
    assert.equal(sessions().length, 1);
    execFileSync('umount', [place]);
    await volume.up(contextOf('2'));
    await volume.down();
    target('host-logout');
    await nothingLeft();
  });

  test('keeps its session while somebody else has another unit mounted through it', async () => {
    const volume = harness.volume('beside', xfs);
    await volume.up(contextOf('1'));
    const [session] = sessions();
    assert.ok(session !== undefined);
    await scanLun(new DiskQueue('host', 1), session, '2');
    const other = sessions()[0]?.luns.find(({ lun }) => lun === '2') ?? assert.fail();
    const place = harness.scratch.join('place');
    execFileSync('mkdir', [place]);
    execFileSync('mount', [other.devicePath, place]);
    await volume.down();
    assert.equal(sessions().length, 1);
    execFileSync('umount', [place]);
    await deleteLun(new DiskQueue('host', 1), other);
    await harness.restart();
    await nothingLeft();
  });
});

const chap = {
  'node.session.auth.username': 'node',
  'node.session.auth.password': 'correct horse 1',
};
const mutual = { 'node.session.auth.username_in': 'target', 'node.session.auth.password_in': 'battery staple' };

describe('a target that wants CHAP', () => {
  after(() => void target('open'));
  const volume_context = { ...contextOf('1'), sessionCHAPAuth: 'true' };
  const stage = (secrets: Context) => harness.volume('chap', xfs).stage({ volume_context, secrets });

  test('lets a node in that has the right password, and no other', async () => {
    target('chap', 'node', 'correct horse 1', '-');
    const volume = harness.volume('chap', xfs);
    await refused(volume.stage({ volume_context: contextOf('1') }), 'UNAVAILABLE', /wants CHAP \(name a Secret/);
    await refused(stage({}), 'FAILED_PRECONDITION', /names no Secret with node.session.auth.username/);
    const wrong = { ...chap, 'node.session.auth.password': 'something else' };
    await refused(stage(wrong), 'UNAVAILABLE', /refuses the name or the password of CHAP/);
    await nothingLeft();
    await volume.stage({ volume_context, secrets: chap });
    const found = execFileSync('sh', [
      '-c',
      'grep -rl "horse" /etc/iscsi /var/lib/iscsi /run "$1" || true',
      'sh',
      harness.scratch.path,
    ]);
    assert.equal(found.toString(), '');
    await volume.unstage();
    await nothingLeft();
  });

  test('is refused if it does not prove itself', async () => {
    target('chap', 'node', 'correct horse 1', 'target', 'battery staple');
    const wrong = { ...chap, ...mutual, 'node.session.auth.password_in': 'something else' };
    await refused(stage(wrong), 'UNAVAILABLE', /does not prove itself by the name and the password of CHAP/);
    await nothingLeft();
    const volume = harness.volume('chap', xfs);
    await volume.stage({ volume_context, secrets: { ...chap, ...mutual } });
    await volume.unstage();
    await nothingLeft();
  });
});

describe('a target that goes away', () => {
  for (const [cut, mend] of [
    ['stop', 'start'],
    ['silence', 'speak'],
  ] as const) {
    test(`is let go long before the kernel gives it up: ${cut}`, async () => {
      const volume = harness.volume('dead', xfs);
      const volume_context = { ...contextOf('1'), replacementTimeout: '86400' };
      await volume.up(volume_context);
      const path = join(volume.target, 'file');
      writeFileSync(path, 'acknowledged', { flush: true });
      // Not later: to make a file may need the target, and the driver runs in this process.
      writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
      target(cut);
      await volume.unpublish();
      // The kubelet asks again and again.
      await eventually(async () => void (await volume.unstage()), 300_000);
      await nothingLeft();
      target(mend);
      await volume.up(contextOf('1'));
      assert.equal(readFileSync(path, 'utf8'), 'acknowledged');
      await volume.down();
      await nothingLeft();
    });
  }

  test('is reported, continues when it is back, also with another iscsid, and is let go if it stays away', async () => {
    const volume = harness.volume('cut', xfs);
    const volume_context = { ...contextOf('1'), replacementTimeout: '120' };
    await volume.up(volume_context);
    target('iscsid', 'stop');
    target('iscsid', 'start');
    target('stop');
    await eventually(async () => {
      assert.match((await volume.stats()).volume_condition?.message ?? '', /No connection to the target/);
    });
    target('start');
    await eventually(async () => {
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
    }, 60_000);
    writeFileSync(join(volume.target, 'file'), 'still there', { flush: true });
    await volume.down();
    await nothingLeft();
  });

  test('is unmounted after the kernel has given it up', async () => {
    const volume = harness.volume('given up', xfs);
    await volume.up(contextOf('1'));
    target('stop');
    await eventually(
      () =>
        assert.deepEqual(
          sessions().map(({ state }) => state),
          ['FREE'],
        ),
      60_000,
    );
    await harness.restart();
    assert.equal((await volume.stats()).volume_condition?.abnormal, true);
    await eventually(async () => void (await volume.down()), 300_000);
    await nothingLeft();
    target('start');
  });
});
