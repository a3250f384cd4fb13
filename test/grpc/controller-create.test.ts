import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { filesystemTypes } from '../../src/volume/filesystem.ts';
import { parseVolumeId } from '../../src/volume/id.ts';
import { maximumVolumeBytes } from '../../src/volume/size.ts';
import { Scratch } from '../support/scratch.ts';
import {
  block,
  create,
  fails,
  gibibyte,
  here,
  listIds,
  mebibyte,
  mount,
  TestDriver,
  volumeOf,
} from './controller-driver.ts';

type Request = Draft<wire.CreateVolumeRequest>;

function dataFile(driver: TestDriver, volumeId: string, pool = 'main'): string {
  return driver.scratch.join(pool, 'volumes', volumeId, 'data');
}

function recordText(driver: TestDriver, volumeId: string, pool = 'main'): string {
  return readFileSync(driver.scratch.join(pool, 'volumes', volumeId, 'volume.json'), 'utf8');
}

describe('CreateVolume: what it makes', () => {
  test('CV31 G07 Y06: an id of our own, an empty context, the node as topology', async () => {
    await using driver = await TestDriver.start();
    const volume = volumeOf(await driver.controller.CreateVolume(create('a')));
    assert.ok(parseVolumeId(volume.volume_id));
    assert.deepEqual(volume, {
      volume_id: volume.volume_id,
      capacity_bytes: 16n * mebibyte,
      volume_context: {},
      content_source: null,
      accessible_topology: [{ segments: here }],
    });
  });

  for (const fsType of filesystemTypes) {
    test(`A06: a mount volume holds ${fsType} when it is answered`, async () => {
      await using driver = await TestDriver.start();
      const request = create('a', { capacity_range: null, volume_capabilities: [mount(fsType)] });
      const { volume_id } = volumeOf(await driver.controller.CreateVolume(request));
      const probe = ['--probe', '--output', 'value', '--match-tag', 'TYPE', dataFile(driver, volume_id)];
      assert.equal(execFileSync('blkid', probe, { encoding: 'utf8' }).trim(), fsType);
    });
  }

  test("A06: a filesystem that nobody names is the pool's own default", async () => {
    await using driver = await TestDriver.start({ pools: { main: {}, other: { defaultFilesystem: 'btrfs' } } });
    const made = async (name: string, parameters: Record<string, string>) => {
      const request = create(name, { volume_capabilities: [mount()], parameters });
      const id = parseVolumeId(volumeOf(await driver.controller.CreateVolume(request)).volume_id);
      return id === undefined ? undefined : (await driver.pools.find(id))?.record.content;
    };
    assert.deepEqual(await made('a', {}), { type: 'mount', fsType: 'ext4' });
    assert.deepEqual(await made('b', { pool: 'other' }), { type: 'mount', fsType: 'btrfs' });
  });

  test('CV10: provisioning thick takes its blocks at once, thin does not', async () => {
    await using driver = await TestDriver.start();
    const allocated = async (name: string, parameters: Record<string, string>) => {
      const { volume_id } = volumeOf(await driver.controller.CreateVolume(create(name, { parameters })));
      return Number(execFileSync('stat', ['--format=%b', dataFile(driver, volume_id)], { encoding: 'utf8' })) * 512;
    };
    assert.equal(await allocated('thin', { provisioning: 'thin' }), 0);
    assert.ok((await allocated('thick', { provisioning: 'thick' })) >= 16 * 2 ** 20);
  });

  test('CV10: mkfsOptions shape the filesystem', async () => {
    await using driver = await TestDriver.start();
    const request = create('a', {
      volume_capabilities: [mount()],
      parameters: { mkfsOptions: '-O ^has_journal -I 512' },
    });
    const { volume_id } = volumeOf(await driver.controller.CreateVolume(request));
    const superblock = execFileSync('dumpe2fs', ['-h', dataFile(driver, volume_id)], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
    assert.match(superblock, /Inode size:\s+512/);
    assert.doesNotMatch(superblock, /has_journal/);
  });

  test('CV10: keys that Kubernetes adds are kept in the record', async () => {
    await using driver = await TestDriver.start();
    const key = 'csi.storage.k8s.io/pvc/name';
    const { volume_id } = volumeOf(
      await driver.controller.CreateVolume(create('a', { parameters: { [key]: 'claim' } })),
    );
    const id = parseVolumeId(volume_id);
    assert.ok(id);
    assert.deepEqual((await driver.pool().find(id))?.parameters, { [key]: 'claim' });
  });

  test('X03 X02: secrets and mount flags reach neither the disk nor the log', async () => {
    await using driver = await TestDriver.start();
    const capability = {
      mount: { mount_flags: ['flag-of-a-mount'] },
      access_mode: { mode: 'SINGLE_NODE_WRITER' as const },
    };
    const request = create('a', { volume_capabilities: [capability], secrets: { key: 'a-secret' } });
    const { volume_id } = volumeOf(await driver.controller.CreateVolume(request));
    assert.doesNotMatch(recordText(driver, volume_id) + driver.log.join(''), /a-secret|flag-of-a-mount/);
  });
});

describe('CreateVolume: sizes', () => {
  const sizes: Record<string, readonly [Request, bigint]> = {
    'CV32: no range is 1 GiB': [{ capacity_range: null }, gibibyte],
    'CV05: a multiple of 4 KiB is taken exactly': [{ capacity_range: { required_bytes: 20480n } }, 20480n],
    'CV05: anything else is rounded up': [{ capacity_range: { required_bytes: 20481n } }, 24576n],
    'CV06: required and limit may be the same': [
      { capacity_range: { required_bytes: 20480n, limit_bytes: 20480n } },
      20480n,
    ],
    'CV07: a limit alone is honoured': [{ capacity_range: { limit_bytes: 10_000_000n } }, 9_998_336n],
    'CV07: a large limit alone does not make a large volume': [
      { capacity_range: { limit_bytes: 1n << 40n } },
      gibibyte,
    ],
    'CV09: a filesystem that needs more gets more': [
      { capacity_range: { required_bytes: 1n }, volume_capabilities: [mount('xfs')] },
      300n * mebibyte,
    ],
  };
  for (const [what, [changes, bytes]] of Object.entries(sizes)) {
    test(what, async () => {
      await using driver = await TestDriver.start();
      const volume = volumeOf(await driver.controller.CreateVolume(create('a', changes)));
      assert.equal(volume.capacity_bytes, bytes);
      const onDisk = execFileSync('stat', ['--format=%s', dataFile(driver, volume.volume_id)], { encoding: 'utf8' });
      assert.equal(BigInt(onDisk), bytes);
    });
  }

  test('L12: sizes above 2^53 are exact from the wire to the disk', async () => {
    const scratch = new Scratch('controller');
    // XFS, for ext4 has no files of that size; a promise of that size needs a pool that promises far too much.
    const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n * gibibyte } as const;
    await using driver = await TestDriver.start({ pools: { main: { location, overcommit: 10_000_000 } } }, scratch);
    const required_bytes = (1n << 53n) + 4096n;
    const request = create('a', { capacity_range: { required_bytes, limit_bytes: required_bytes } });
    const volume = volumeOf(await driver.controller.CreateVolume(request));
    assert.equal(volume.capacity_bytes, required_bytes);
    assert.deepEqual(volumeOf(await driver.controller.CreateVolume(request)), volume);
    await fails(
      driver.controller.CreateVolume(create('a', { capacity_range: { required_bytes: required_bytes + 1n } })),
      'ALREADY_EXISTS',
      /9007199254745088 bytes, not at least 9007199254745089/,
    );
    const { available_capacity } = await driver.controller.GetCapacity({});
    assert.ok(available_capacity > 1n << 53n, `${available_capacity}`);
    const data = driver.scratch.join('data', 'pools', 'main', 'volumes', volume.volume_id, 'data');
    assert.equal(BigInt(execFileSync('stat', ['--format=%s', data], { encoding: 'utf8' })), required_bytes);
  });
});

describe('CreateVolume: what it refuses, with nothing left behind', () => {
  const mode = 'SINGLE_NODE_WRITER' as const;
  const invalid: Record<string, Request> = {
    'CV01: no name': { name: '' },
    'CV02 L09: no capabilities': { volume_capabilities: [] },
    'CV03: a capability without an access mode': { volume_capabilities: [{ block: {} }] },
    'CV03 L14: a capability without an access type': { volume_capabilities: [{ access_mode: { mode } }] },
    'CV03 A03: one bad capability among good ones': { volume_capabilities: [block(), block('MULTI_NODE_READER_ONLY')] },
    'A03: block and mount in one volume': { volume_capabilities: [block(), mount()] },
    'A03: two filesystems in one volume': { volume_capabilities: [mount('xfs'), mount('ext4')] },
    'A04: an unknown filesystem': { volume_capabilities: [mount('ntfs')] },
    'A05: MULTI_NODE_READER_ONLY': { volume_capabilities: [mount('', 'MULTI_NODE_READER_ONLY')] },
    'A05: MULTI_NODE_SINGLE_WRITER': { volume_capabilities: [mount('', 'MULTI_NODE_SINGLE_WRITER')] },
    'A05: MULTI_NODE_MULTI_WRITER': { volume_capabilities: [mount('', 'MULTI_NODE_MULTI_WRITER')] },
    'L13: access mode UNKNOWN': { volume_capabilities: [mount('', 'UNKNOWN')] },
    'L13: an access mode that nobody knows': { volume_capabilities: [mount('', 77)] },
    'G10: volume_mount_group': {
      volume_capabilities: [{ mount: { volume_mount_group: '100' }, access_mode: { mode } }],
    },
    'CV04: an empty range': { capacity_range: {} },
    'CV04: required above limit': { capacity_range: { required_bytes: 8192n, limit_bytes: 4096n } },
    'L11: a negative size': { capacity_range: { required_bytes: -1n } },
    'L11: a negative limit': { capacity_range: { required_bytes: 4096n, limit_bytes: -1n } },
    'CV10: an unknown parameter': { parameters: { size: '1Gi' } },
    'CV10: an unknown pool': { parameters: { pool: '../main' } },
    'CV10: an unknown provisioning': { parameters: { provisioning: 'fat' } },
    'CV10: an mkfs option that is not allowed': {
      parameters: { mkfsOptions: '-d /etc' },
      volume_capabilities: [mount()],
    },
    'CV10: mkfsOptions that mkfs itself refuses': {
      parameters: { mkfsOptions: '-I 100' },
      volume_capabilities: [mount()],
    },
    'CV10: mkfsOptions for a raw block volume': { parameters: { mkfsOptions: '-m 1' } },
    'CV13: mutable_parameters': { mutable_parameters: { iops: '100' } },
    'L14: a source without a type': { volume_content_source: {} },
    'Y02: an empty topology requirement': { accessibility_requirements: {} },
    'Y02: a preference outside of the requisite': {
      accessibility_requirements: { requisite: [{ segments: here }], preferred: [{ segments: { zone: 'a' } }] },
    },
    'Y01: a malformed topology value': { accessibility_requirements: { requisite: [{ segments: { zone: 'a b' } }] } },
  };
  const outOfRange: Record<string, Request> = {
    'CV07: rounding up beyond the limit': { capacity_range: { required_bytes: 4097n, limit_bytes: 8191n } },
    'CV07: a limit below the smallest size': { capacity_range: { limit_bytes: 4095n } },
    'CV09: a limit below what the filesystem needs': {
      capacity_range: { required_bytes: mebibyte, limit_bytes: 100n * mebibyte },
      volume_capabilities: [mount('xfs')],
    },
    'CV09: more than a volume can have': { capacity_range: { required_bytes: maximumVolumeBytes + 1n } },
  };
  const exhausted: Record<string, Request> = {
    'CV20: more than the pool has': { capacity_range: { required_bytes: 1n << 50n } },
    'Y05: a requisite topology without this node': {
      accessibility_requirements: { requisite: [{ segments: { 'topology.holdfast.dev/node': 'node-2' } }] },
    },
    'Y03: a requisite topology by a key that is not ours': {
      accessibility_requirements: { requisite: [{ segments: { ...here, 'topology.kubernetes.io/zone': 'a' } }] },
    },
  };
  const groups = { INVALID_ARGUMENT: invalid, OUT_OF_RANGE: outOfRange, RESOURCE_EXHAUSTED: exhausted };
  for (const [code, requests] of Object.entries(groups)) {
    for (const [what, changes] of Object.entries(requests)) {
      test(`${what} is ${code}`, async () => {
        await using driver = await TestDriver.start();
        await fails(driver.controller.CreateVolume(create('a', changes)), code);
        await driver.pools.close();
        const search = [driver.scratch.join('main'), '-mindepth', '2', '-not', '-path', '*/spares/*'];
        assert.equal(execFileSync('find', search, { encoding: 'utf8' }), '');
      });
    }
  }

  test('CV10: a pool that is not open is UNAVAILABLE, and the others work', async () => {
    await using driver = await TestDriver.start({
      pools: { main: {}, broken: {} },
      failing: { broken: 'its disk is gone' },
    });
    const request = create('a', { parameters: { pool: 'broken' } });
    await fails(driver.controller.CreateVolume(request), 'UNAVAILABLE', /its disk is gone/);
    await driver.controller.CreateVolume(create('a'));
  });
});

describe('CreateVolume: topology', () => {
  const there = { 'topology.holdfast.dev/node': 'node-2' };
  const accepted: Record<string, Draft<wire.TopologyRequirement>> = {
    'CV19: this node alone': { requisite: [{ segments: here }] },
    'Y03: this node among others, and another one preferred': {
      requisite: [{ segments: there }, { segments: here }],
      preferred: [{ segments: there }],
    },
    'Y03: another node preferred, none required': { preferred: [{ segments: there }] },
    'Y01: the key in other letters': { requisite: [{ segments: { 'topology.holdfast.dev/Node': 'node-1' } }] },
  };
  for (const [what, accessibility_requirements] of Object.entries(accepted)) {
    test(`${what}: made here`, async () => {
      await using driver = await TestDriver.start();
      const volume = volumeOf(await driver.controller.CreateVolume(create('a', { accessibility_requirements })));
      assert.deepEqual(volume.accessible_topology, [{ segments: here }]);
    });
  }
});

describe('CreateVolume: names', () => {
  const names = {
    'L01: 128 bytes': 'n'.repeat(128),
    'L01 L02: 128 bytes of four-byte characters': '🗻'.repeat(32),
    'L08: tab, newline, carriage return': 'a\tb\nc\r',
    'L08: a path': '../../../etc/passwd',
    'L08: dots': '..',
    'L08: quotes and a command': `'"$(reboot)\`;--help`,
    'L08: leading dash': '-rf',
    'L08: a space': ' ',
    'L08: U+00A0': '\u00a0',
    'L08: composed': '\u00e9',
    'L08: decomposed': 'e\u0301',
    'L08: lower case': 'name',
    'L08: upper case': 'NAME',
    'L08: an id': 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa',
    'L08: right to left': '\u202eabc',
  };

  test('every name that CSI allows is a volume of its own, and none becomes a path', async () => {
    await using driver = await TestDriver.start();
    const ids = new Set<string>();
    for (const name of Object.values(names)) {
      const { volume_id } = volumeOf(await driver.controller.CreateVolume(create(name)));
      const id = parseVolumeId(volume_id);
      assert.ok(id);
      assert.equal((await driver.pool().find(id))?.name, name);
      ids.add(volume_id);
    }
    assert.equal(ids.size, Object.keys(names).length);
    assert.deepEqual(await listIds(driver), [...ids].sort());
    const entries = execFileSync('ls', ['-A', driver.scratch.join('main', 'volumes')], { encoding: 'utf8' });
    assert.deepEqual(entries.trim().split('\n'), [...ids].sort());
  });

  for (const [what, name] of Object.entries({
    'L02: 129 bytes': 'n'.repeat(129),
    'L02: 129 bytes in 33 characters': `a${'🗻'.repeat(32)}`,
    'L08: NUL': 'a\u0000',
    'L08: backspace': '\u0008',
    'L08: vertical tab': 'a\u000bb',
    'L08: form feed': 'a\u000cb',
    'L08: escape': '\u001b[31m',
    'L08: DEL': 'a\u007f',
    'L08: C1': 'a\u0085',
  })) {
    test(`${what} is INVALID_ARGUMENT`, async () => {
      await using driver = await TestDriver.start();
      await fails(driver.controller.CreateVolume(create(name)), 'INVALID_ARGUMENT', /name/);
      assert.deepEqual(await listIds(driver), []);
    });
  }
});
