import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { stepNames } from '../volume/step.ts';
import { type Config, type ConfigSource, type Parsed, parseConfig, parseServeConfig } from './config.ts';

function source(environment: Record<string, string>, file?: string): ConfigSource {
  return {
    environment: file === undefined ? environment : { HOLDFAST_CONFIG: '/etc/holdfast.yaml', ...environment },
    hostName: 'node-1',
    readFile: (path) => {
      if (file === undefined) throw Object.assign(new Error(`ENOENT: open '${path}'`), { code: 'ENOENT' });
      return file;
    },
  };
}

function valid(parsed: Parsed<Config>): Config {
  assert.ok('config' in parsed, 'problems' in parsed ? parsed.problems.join('\n') : '');
  return parsed.config;
}

function problems(parsed: Parsed<Config>): readonly string[] {
  assert.ok('problems' in parsed, 'a configuration was accepted that should not be');
  return parsed.problems;
}

const ofFile = (text: string) => parseConfig(source({}, text));

describe('the environment', () => {
  test('nothing set: one pool named default, everything else by default', async () => {
    const config = valid(await parseConfig(source({})));
    assert.deepEqual(config.pools, [
      {
        name: 'default',
        kind: 'image',
        own: { location: { type: 'auto', sizeBytes: undefined } },
        reserveBytes: undefined,
        overcommit: 1,
        defaultFilesystem: 'ext4',
        undeleteSeconds: 0,
        trimming: 'weekly',
        sickAfterMs: 20_000,
        keyFile: undefined,
        labels: {},
      },
    ]);
    assert.equal(config.defaultPool, 'default');
    assert.equal(config.driverName, 'holdfast.csi.dev');
    assert.equal(config.nodeId, 'node-1');
    assert.equal(config.dataDirectory, '/var/lib/holdfast');
    assert.deepEqual(config.targetRoots, ['/var/lib/kubelet']);
    assert.equal(config.expansion, 'node');
    assert.equal(config.attach, 'none');
    assert.equal(config.maxVolumesPerNode, 0);
    assert.equal(config.lockTimeoutMs, 30_000);
    assert.equal(config.logLevel, 'info');
    assert.equal(config.crashPoint, undefined);
    assert.equal(config.httpAddress, undefined);
  });

  test('everything set', async () => {
    const config = await parseServeConfig(
      source({
        CSI_ENDPOINT: 'unix:///run/csi/csi.sock',
        HOLDFAST_NODE_ID: 'rack_1.node-7',
        HOLDFAST_DRIVER_NAME: 'disk.example.org',
        HOLDFAST_DATA: '/srv/holdfast/',
        HOLDFAST_KUBELET_DIR: '/var/lib/k0s/kubelet',
        HOLDFAST_TARGET_ROOTS: '/tmp/a:/tmp/b',
        HOLDFAST_REGISTRATION_SOCKET: '/run/reg/holdfast-reg.sock',
        HOLDFAST_LOG_LEVEL: 'debug',
        HOLDFAST_TEST_CRASH_AT: 'before create/commit',
      }),
    );
    assert.ok('config' in parsed(config));
    const { config: serve } = parsed(config);
    assert.equal(serve.socketPath, '/run/csi/csi.sock');
    assert.equal(serve.nodeId, 'rack_1.node-7');
    assert.equal(serve.driverName, 'disk.example.org');
    assert.equal(serve.dataDirectory, '/srv/holdfast');
    assert.deepEqual(serve.targetRoots, ['/var/lib/k0s/kubelet', '/tmp/a', '/tmp/b']);
    assert.equal(serve.registrationSocketPath, '/run/reg/holdfast-reg.sock');
    assert.deepEqual(serve.crashPoint, { when: 'before', step: 'create/commit' });
  });

  test('O01: serve needs CSI_ENDPOINT, a command that only looks does not', async () => {
    assert.match(problems(await parseServeConfig(source({})))[0] ?? '', /^CSI_ENDPOINT is not set/);
    assert.equal(valid(await parseConfig(source({}))).socketPath, undefined);
  });

  for (const endpoint of [
    'tcp://127.0.0.1:1',
    'file:///run/csi.sock',
    '/run/csi.sock',
    'unix://csi.sock',
    'unix:///run/csi',
    'unix:///',
  ]) {
    test(`O01: CSI_ENDPOINT ${endpoint} is refused`, async () => {
      const found = problems(await parseServeConfig(source({ CSI_ENDPOINT: endpoint })));
      assert.ok(found.some((problem) => problem.startsWith('CSI_ENDPOINT: ')));
    });
  }

  for (const [given, host, port] of [
    [':9808', undefined, 9808],
    ['127.0.0.1:80', '127.0.0.1', 80],
    ['[::1]:9808', '::1', 9808],
    [':0', undefined, 0],
  ] as const) {
    test(`HOLDFAST_HTTP_ADDRESS ${given}`, async () => {
      const config = valid(await parseConfig(source({ HOLDFAST_HTTP_ADDRESS: given })));
      assert.deepEqual(config.httpAddress, { host, port });
    });
  }

  for (const given of ['9808', 'localhost:9808', '::1:9808', ':65536', ':-1', '1.2.3:1', '[1.2.3.4]:1', ':', 'x:1']) {
    test(`HOLDFAST_HTTP_ADDRESS ${given} is refused`, async () => {
      assert.match(problems(await parseConfig(source({ HOLDFAST_HTTP_ADDRESS: given }))).join(), /^HOLDFAST_HTTP_ADDR/);
    });
  }

  test('a socket path longer than unix(7) allows is refused', async () => {
    const endpoint = (bytes: number) => ({ CSI_ENDPOINT: `unix:///${'d'.repeat(bytes - '/.sock'.length)}.sock` });
    assert.match(problems(await parseConfig(source(endpoint(108)))).join(), /at most 107 bytes/);
    assert.equal(valid(await parseConfig(source(endpoint(107)))).socketPath?.length, 107);
  });

  test('Y01: a node id that is no label value is refused, a host name too', async () => {
    assert.match(
      problems(await parseConfig(source({ HOLDFAST_NODE_ID: 'a/b' }))).join(),
      /^HOLDFAST_NODE_ID: 'a\/b' must be/,
    );
    assert.match(problems(await parseConfig(source({ HOLDFAST_NODE_ID: 'x'.repeat(64) }))).join(), /1 to 63/);
    const long = await parseConfig({ ...source({}), hostName: 'h'.repeat(64) });
    assert.match(problems(long).join(), /the default: set another/);
  });

  for (const name of ['-a', 'a-', 'A.b', 'a..b', 'a_b', 'a.b-', 'x'.repeat(64)]) {
    test(`I01 I02: driver name ${name.slice(0, 10)} is refused`, async () => {
      assert.match(problems(await parseConfig(source({ HOLDFAST_DRIVER_NAME: name }))).join(), /^HOLDFAST_DRIVER_NAME/);
    });
  }

  test('every mistake is named at once', async () => {
    const found = problems(
      await parseServeConfig(
        source(
          {
            HOLDFAST_DATA: 'relative',
            HOLDFAST_LOG_LEVEL: 'loud',
            HOLDFAST_TARGET_ROOTS: '/',
            HOLDFAST_TEST_CRASH_AT: 'before lunch',
          },
          'expansion: never\n',
        ),
      ),
    ).join('\n');
    for (const name of ['CSI_ENDPOINT', 'DATA', 'LOG_LEVEL', 'TARGET_ROOTS', 'TEST_CRASH_AT', 'holdfast.yaml:1:1']) {
      assert.ok(found.includes(name), `${name} is not in:\n${found}`);
    }
  });

  test('a misspelled variable is refused, those that Kubernetes sets for a service are not', async () => {
    assert.match(problems(await parseConfig(source({ HOLDFAST_NODEID: 'x' }))).join(), /did you mean HOLDFAST_NODE_ID/);
    const service = {
      HOLDFAST_SERVICE_HOST: '10.0.0.1',
      HOLDFAST_PORT: 'tcp://10.0.0.1:80',
      HOLDFAST_PORT_80_TCP: 'x',
    };
    valid(await parseConfig(source(service)));
  });

  test('the registration socket cannot be the CSI socket', async () => {
    const both = { CSI_ENDPOINT: 'unix:///a/b.sock', HOLDFAST_REGISTRATION_SOCKET: '/a/b.sock' };
    assert.match(problems(await parseConfig(source(both))).join(), /another path/);
  });

  test("the operator's socket is among the driver's own files, unless it is put elsewhere", async () => {
    const { adminSocketPath } = valid(await parseConfig(source({ HOLDFAST_DATA: '/srv/holdfast/' })));
    assert.equal(adminSocketPath, '/srv/holdfast/admin.sock');
    const elsewhere = source({ HOLDFAST_ADMIN_SOCKET: '/run/admin/holdfast.sock' });
    assert.equal(valid(await parseConfig(elsewhere)).adminSocketPath, '/run/admin/holdfast.sock');
  });

  test("O02: the operator's socket is not beside that of CSI, nor among the kubelet's plugins", async () => {
    const admin = { HOLDFAST_ADMIN_SOCKET: '/a/admin.sock' };
    const csi = await parseConfig(source({ ...admin, CSI_ENDPOINT: 'unix:///a/csi.sock' }));
    assert.match(problems(csi).join(), /^HOLDFAST_ADMIN_SOCKET: \/a is for the socket of CSI_ENDPOINT/);
    const registration = await parseConfig(source({ ...admin, HOLDFAST_REGISTRATION_SOCKET: '/a/reg.sock' }));
    assert.match(
      problems(registration).join(),
      /^HOLDFAST_ADMIN_SOCKET: \/a is for the socket of HOLDFAST_REGISTRATION/,
    );
    const same = source({ HOLDFAST_DATA: '/a', CSI_ENDPOINT: 'unix:///a/admin.sock' });
    assert.match(problems(await parseConfig(same)).join(), /is the socket of CSI_ENDPOINT: name another/);
    valid(await parseConfig(source({ HOLDFAST_DATA: '/a', CSI_ENDPOINT: 'unix:///a/csi.sock' })));
  });

  test('every step can be armed', async () => {
    for (const step of stepNames) {
      const config = valid(await parseConfig(source({ HOLDFAST_TEST_CRASH_AT: `after ${step}` })));
      assert.deepEqual(config.crashPoint, { when: 'after', step });
      const second = valid(await parseConfig(source({ HOLDFAST_TEST_CRASH_AT: `before ${step} 2` })));
      assert.deepEqual(second.crashPoint, { when: 'before', step, pass: 2 });
    }
    for (const wrong of ['after create/commit 0', 'after create/commit two', 'after create/commit 2 3']) {
      assert.match(problems(await parseConfig(source({ HOLDFAST_TEST_CRASH_AT: wrong }))).join(), /which pass of it/);
    }
  });
});

describe('the file', () => {
  test('each kind of location, with exact sizes above 2^53', async () => {
    const config = valid(
      await ofFile(
        [
          'pools:',
          '  fast: { kind: image, device: /dev/nvme1n1, reserve: 1Gi, defaultFilesystem: xfs, undelete: 24h, labels: { media: nvme, tier: "1" } }',
          '  big: { file: /srv/big.img, size: 9007199254740993, overcommit: 1.5 }',
          '  here: { directory: /srv/pool/ }',
          '  plain:',
          'defaultPool: fast',
          'expansion: controller',
          'attach: required',
          'maxVolumesPerNode: 110',
          'lockTimeoutSeconds: 2.5',
        ].join('\n'),
      ),
    );
    assert.deepEqual(
      config.pools.map((pool) => pool.kind === 'image' && pool.own.location),
      [
        { type: 'device', path: '/dev/nvme1n1' },
        { type: 'file', path: '/srv/big.img', sizeBytes: 9007199254740993n },
        { type: 'directory', path: '/srv/pool' },
        { type: 'auto', sizeBytes: undefined },
      ],
    );
    assert.equal(config.pools[0]?.reserveBytes, 1n << 30n);
    assert.equal(config.pools[0]?.defaultFilesystem, 'xfs');
    assert.equal(config.pools[0]?.undeleteSeconds, 86_400);
    assert.deepEqual(
      config.pools.slice(0, 2).map(({ labels }) => labels),
      [{ media: 'nvme', tier: '1' }, {}],
    );
    assert.equal(config.pools[1]?.overcommit, 1.5);
    assert.equal(config.defaultPool, 'fast');
    assert.equal(config.expansion, 'controller');
    assert.equal(config.attach, 'required');
    assert.equal(config.maxVolumesPerNode, 110);
    assert.equal(config.lockTimeoutMs, 2500);
  });

  test('a pool of directories has a path, and says how it goes by quota', async () => {
    const { pools } = valid(
      await ofFile(
        [
          'pools:',
          '  plain: { kind: directory, path: /srv/volumes/, undelete: 1h }',
          '  held: { kind: directory, path: /srv/held, quota: required }',
          'defaultPool: plain',
        ].join('\n'),
      ),
    );
    assert.deepEqual(
      pools.map(({ kind, own }) => ({ kind, own })),
      [
        { kind: 'directory', own: { path: '/srv/volumes', quota: 'whenAvailable' } },
        { kind: 'directory', own: { path: '/srv/held', quota: 'required' } },
      ],
    );
    const wrong = problems(await ofFile('pools: { plain: { kind: directory, quota: always, size: 1Gi } }')).join('\n');
    assert.match(wrong, /needs a path/);
    assert.match(wrong, /must be one of required, whenAvailable, none, not 'always'/);
    assert.match(wrong, /unknown key/);
  });

  test('pools in volume groups, and what is wrong with them', async () => {
    const { pools } = valid(
      await ofFile('pools: { fast: { kind: lvm, volumeGroup: vg0, wipe: zero } }\ndefaultPool: fast'),
    );
    assert.deepEqual(
      pools.map(({ kind, own }) => ({ kind, own })),
      [{ kind: 'lvm', own: { volumeGroup: 'vg0', devices: [], wipe: 'zero' } }],
    );
    const of = async (text: string) => problems(await ofFile(`pools: { ${text} }\ndefaultPool: a`)).join('\n');
    assert.match(await of('a: { kind: lvm }'), /needs a volumeGroup for its volumes, or devices/);
    assert.match(await of('a: { kind: lvm, devices: /dev/sdb }'), /devices: must be a list, each a path of a disk/);
    assert.match(
      await of('a: { kind: lvm, devices: [] }'),
      /devices: must be a list with one path of a disk at least$/,
    );
    assert.match(await of('a: { kind: lvm, devices: [/dev/sdb, /dev//sdb] }'), /has '\/dev\/sdb' twice/);
    assert.match(await of('a: { kind: lvm, devices: [/dev/sdb] }, b: { device: /dev/sdb }'), /already at/);
    assert.match(await of(`${'a'.repeat(40)}: { kind: lvm, devices: [/dev/sdb] }`), /needs a volumeGroup, too/);
    assert.match(
      await of('a: { kind: lvm, devices: [/dev/sdb], match: { bus: nvme } }'),
      /set only one of devices, match/,
    );
    assert.match(await of('a: { kind: lvm, match: {} }'), /needs at least one of id, model, rotational, bus, size/);
    assert.match(await of('a: { kind: lvm, volumeGroup: -x }'), /must be the name of a volume group/);
    assert.match(await of('a: { kind: lvm, volumeGroup: vg0, wipe: shred }'), /must be one of discard, zero, none/);
    assert.match(
      await of('a: { kind: lvm, volumeGroup: vg0, overcommit: 2 }'),
      /pools\.a\.overcommit: unknown key \(in a pool of kind lvm it belongs in thinPool\)$/,
    );
    assert.match(await of('a: { kind: lvm, volumeGroup: v }, b: { kind: lvm, volumeGroup: v }'), /already at/);
    assert.match(await of('a: { kind: disk }'), /needs a device/);
    const example = /must be an absolute path, such as \/dev\/disk\/by-id\/… \(holdfast disks\), not 'sdb'/;
    assert.match(await of('a: { kind: disk, device: sdb }'), example);
    assert.match(await of('a: { device: sdb }'), example);
    assert.match(await of('a: { kind: lvm, devices: [sdb] }'), example);
    assert.match(
      await of('a: { kind: disk, device: /dev/sdb, adopt: yes }'),
      /adopt: must be true or false, not 'yes'/,
    );
    assert.match(await of('a: { kind: disk, device: /dev/sdb, reserve: 1Gi }'), /unknown key/);
    assert.match(await of('a: { kind: disk, device: /dev/sdb }, b: { device: /dev/sdb }'), /already at/);
  });

  const byNode = [
    'pools: { default: { reserve: 1Gi } }',
    'maxVolumesPerNode: 10',
    'nodes:',
    '  db-*:',
    '    pools: { fast: { kind: lvm, volumeGroup: vg0 }, slow: { directory: /srv/slow } }',
    '    defaultPool: fast',
    '  db-7: { maxVolumesPerNode: 0 }',
    '  "*-9": { lockTimeoutSeconds: 1 }',
  ].join('\n');
  const onNode = (nodeId: string, text = byNode) => parseConfig(source({ HOLDFAST_NODE_ID: nodeId }, text));

  test('what is different on some nodes: pools as a whole, everything else by itself', async () => {
    for (const [nodeId, pools, defaultPool, maxVolumesPerNode, lockTimeoutMs] of [
      ['web-1', ['default'], 'default', 10, 30_000],
      ['db-1', ['fast', 'slow'], 'fast', 10, 30_000],
      // A section for its exact name takes precedence over the pattern.
      ['db-7', ['default'], 'default', 0, 30_000],
      ['web-9', ['default'], 'default', 10, 1_000],
    ] as const) {
      const config = valid(await onNode(nodeId));
      assert.deepEqual([config.pools.map(({ name }) => name), config.defaultPool], [pools, defaultPool], nodeId);
      assert.deepEqual([config.maxVolumesPerNode, config.lockTimeoutMs], [maxVolumesPerNode, lockTimeoutMs], nodeId);
    }
    assert.deepEqual(problems(await onNode('db-9')), [
      '/etc/holdfast.yaml:8:3: nodes.*-9: is for node db-9, and so is db-*: name the node, or change one of them',
    ]);
  });

  for (const nodeId of ['7', '010', '0x1f', '1e3', '1.50', 'true', 'null']) {
    test(`a node can be called ${nodeId}, which YAML reads as something else`, async () => {
      const text = `pools: { 010: {} }\nnodes:\n  ${nodeId}: { maxVolumesPerNode: 5 }\n`;
      const config = valid(await onNode(nodeId, text));
      assert.equal(config.maxVolumesPerNode, 5);
      // The name that such a pool had before there were sections for nodes.
      assert.deepEqual(
        config.pools.map(({ name }) => name),
        ['10'],
      );
      assert.match(problems(await onNode(nodeId, `${text}  "${nodeId}": {}\n`)).join('\n'), /:4:3: .* given twice/);
    });
  }

  test('a mistake in what is for other nodes only stops no node; one that it has is placed', async () => {
    const text = 'nodes:\n  a*: { pools: { x: { size: 1 } } }\n  a-own: {}\n  b: {}\n';
    for (const nodeId of ['b', 'c', 'a-own']) valid(await onNode(nodeId, text));
    assert.deepEqual(problems(await onNode('a', text)), [
      "/etc/holdfast.yaml:2:23: nodes.a*.pools.x.size: must be at least 300Mi, not '1': write a number with a unit, such as 10Gi",
    ]);
  });

  for (const [what, section, expected] of [
    [
      'what is the same for all nodes',
      'attach: required',
      /:2:8: nodes.a.attach: unknown key \(it is the same for all/,
    ],
    [
      'a default that only others have',
      'defaultPool: b',
      /:2:8: nodes.a.defaultPool: there is no such pool; .* default$/,
    ],
    ['several pools without a default', 'pools: { x: {}, y: {} }', /:2:8: nodes.a.pools: .* set defaultPool/],
    [
      'two pools in one place',
      'pools: { x: { file: /x }, default: { file: /x } }',
      /nodes.a.pools.default: pool 'x' is/,
    ],
  ] as const) {
    test(`in a section for some nodes ${what} is refused`, async () => {
      assert.match(problems(await onNode('a', `nodes:\n  a: { ${section} }\n`)).join('\n'), expected);
    });
  }

  test('an empty file is as good as none', async () => {
    assert.deepEqual(valid(await ofFile('')).pools, valid(await parseConfig(source({}))).pools);
    assert.deepEqual(valid(await ofFile('# nothing\n')).pools.length, 1);
  });

  const mistakes: readonly (readonly [string, string, RegExp])[] = [
    ['a missing file', '', /^HOLDFAST_CONFIG: name a file that is there: there is no \/nowhere\.yaml$/],
    ['broken YAML', 'pools: {\n', /^\/etc\/holdfast.yaml:2:1: /],
    ['a key given twice', 'expansion: node\nexpansion: node\n', /:2:1: .*unique/],
    ['an unknown key', 'pool: {}\n', /:1:1: pool: unknown key \(did you mean 'pools'\?\)/],
    ['a key of blanks', '"  ": 1\n', /:1:1: " {2}": unknown key/],
    ['a key of two lines', '"a\\nb": 1\n', /:1:1: "a\\nb": unknown key/],
    ['an unknown key of a pool', 'pools:\n  a:\n    overcomit: 2\n', /:3:5: pools.a.overcomit: .*'overcommit'/],
    [
      'an unknown key in a section of a pool',
      'pools:\n  a: { encryption: { keyfile: /run/key } }\n',
      /:2:22: pools.a.encryption.keyfile: unknown key \(did you mean 'keyFile'\?\)/,
    ],
    [
      'encryption without a key',
      'pools:\n  a: { encryption: {} }\n',
      /:2:8: pools.a.encryption: needs a keyFile, such/,
    ],
    [
      'a size that is none, in a section of a pool',
      'pools:\n  a: { kind: lvm, volumeGroup: v, thinPool: { size: 80% } }\n',
      /:2:47: pools.a.thinPool.size: '80%' is not a size: write a number/,
    ],
    [
      'an unknown key far from any',
      'pools:\n  a: { colour: red }\n',
      /:2:8: pools.a.colour: unknown key \(known: kind, /,
    ],
    [
      'a bad size',
      'pools:\n  a:\n    size: 10 GB\n',
      /:3:5: pools.a.size: '10 GB' is not a size \(did you mean 10G\?\)/,
    ],
    ['a size of nothing', 'pools:\n  a:\n    size: 0\n', /:3:5: pools.a.size: must be at least 300Mi, not '0'/],
    ['a size without its unit', 'pools:\n  a:\n    size: 1\n', /:3:5: pools.a.size: must be at least 300Mi/],
    ['a size beyond any disk', 'pools:\n  a: { size: 9999999Pi }\n', /:2:8: pools.a.size: must be at most 1024Pi/],
    ['a reserve without its unit', 'pools:\n  a: { reserve: 5 }\n', /:2:8: pools.a.reserve: must be at least 1Mi/],
    ['a reserve of all', 'pools:\n  a: { size: 1Gi, reserve: 1Gi }\n', /:2:19: pools.a.reserve: must be less than/],
    ['a patience of no time', 'pools:\n  a: { sickAfter: 0 }\n', /:2:8: pools.a.sickAfter: must be 1s to 1h/],
    ['a key without a value', 'pools:\n  a: { size: }\n', /:2:8: pools.a.size: has no value/],
    ['the root', 'pools:\n  a: { directory: / }\n', /:2:8: pools.a.directory: \/ is not for one pool alone/],
    ['a directory among the devices', 'pools:\n  a: { directory: /dev/shm/a }\n', /\/dev\/shm\/a is among the devices/],
    ['a directory of the system', 'pools:\n  a: { directory: /usr/x }\n', /pools.a.directory: \/usr\/x belongs to the/],
    ['a file in the root', 'pools:\n  a: { file: //.. }\n', /:2:8: pools.a.file: \/ is not for one pool alone/],
    ['a directory as a device', 'pools:\n  a: { device: /etc }\n', /:2:8: pools.a.device: \/etc belongs to the system/],
    ["the driver's own", 'pools:\n  a: { directory: /var/lib/holdfast }\n', /HOLDFAST_DATA/],
    ["the driver's notes", 'pools:\n  a: { directory: /var/lib/holdfast/node/a }\n', /has the driver's notes/],
    ["what has the kubelet's", 'pools:\n  a: { directory: /var/lib/kubelet }\n', /HOLDFAST_KUBELET_DIR/],
    ["another pool's automatic location", 'pools:\n  a:\n  b: { file: /var/lib/holdfast/pools/a.img }\n', /:3:3: /],
    [
      'a place that is written in two ways',
      'pools:\n  a: { directory: /x/y }\n  b: { directory: /x//y/ }\n',
      /:3:3: pools.b: pool 'a' is already at \/x\/y/,
    ],
    [
      'a place in another one',
      'pools:\n  a: { directory: /x/y }\n  b: { file: /x/y/z.img }\n',
      /:3:3: pools.b: \/x\/y\/z.img lies in \/x\/y, and one of them is pool 'a'/,
    ],
    ['a list as a pool', 'pools:\n  a: [1]\n', /:2:3: pools.a: must be a section with keys and values, not a list/],
    ['a flag as a section', 'pools: yes\n', /:1:1: pools: must be a section with a key for each, not 'yes'/],
    ['a word that is nearly right', 'attach: require\n', /attach: must be one of none, required, .*mean 'required'\?/],
    ['a default that is a number', 'defaultPool: 1\n', /:1:1: defaultPool: must be text, not '1': put it in quotes/],
    ['a tab', 'pools:\n\ta: {}\n', /:2:1: is indented with a tab: YAML wants spaces/],
    ['an endless alias', 'pools: &x\n  a: *x\n', /:2:3: pools.a.a: unknown key/],
    ['a size that is a list', 'pools:\n  a:\n    size: [1]\n', /:3:5: pools.a.size: must be a size/],
    [
      'a size for a directory',
      'pools:\n  a: { directory: /a, size: 1Gi }\n',
      /:2:23: pools.a.size: only a backing file/,
    ],
    ['two locations', 'pools:\n  a: { directory: /a, device: /b }\n', /:2:23: pools.a.device: set only one of/],
    [
      'a disk, and one like it',
      'pools:\n  a: { device: /b, match: { bus: nvme } }\n',
      /a\.match: set only one of device, match/,
    ],
    ['a match for nothing', 'pools:\n  a: { match: { model: "" } }\n', /match\.model: is empty: write a pattern/],
    [
      'a match with a size of a file',
      'pools:\n  a: { match: { bus: nvme }, size: 1Gi }\n',
      /a\.size: only a backing file has a size/,
    ],
    [
      'two pools in one place',
      'pools:\n  a: { file: /x }\n  b: { file: /x }\n',
      /:3:3: pools.b: pool 'a' is already at \/x/,
    ],
    ['a relative path', 'pools:\n  a: { file: x.img }\n', /:2:8: pools.a.file: must be an absolute path/],
    [
      'a label of no text',
      'pools:\n  a: { labels: { ssd: true } }\n',
      /:2:8: pools.a.labels: has 'true' as ssd: .*in quotes/,
    ],
    [
      'a label of blanks',
      'pools:\n  a: { labels: { a b: c } }\n',
      /:2:8: pools.a.labels: has the label 'a b': labels and/,
    ],
    [
      'labels in a list',
      'pools:\n  a: { labels: [nvme] }\n',
      /:2:8: pools.a.labels: must be a section with a value for/,
    ],
    ['an unknown rhythm', 'pools:\n  a: { trim: hourly }\n', /:2:8: pools.a.trim/],
    ['a bad pool name', 'pools:\n  A_b: {}\n', /:2:3: pools.A_b: a pool name has/],
    ['no pools', 'pools: {}\n', /pools: name at least one/],
    ['an unknown kind', 'pools:\n  a: { kind: zfs }\n', /:2:8: pools.a.kind/],
    [
      'a key that only another kind has',
      'pools:\n  a: { quota: none }\n',
      /:2:8: pools.a.quota: unknown key \(pools of kind directory have it, and this one is of kind image\)/,
    ],
    [
      'a pool of directories that is nowhere',
      'pools:\n  a: { kind: directory }\n',
      /^[^\n]*:2:3: pools.a: needs a path[^\n]*$/,
    ],
    [
      'two kinds in one place',
      'pools:\n  a: { kind: directory, path: /srv/a }\n  b: { directory: /srv/a/b }\n',
      /:3:3: pools.b: \/srv\/a\/b lies in \/srv\/a, and one of them is pool 'a'/,
    ],
    [
      'directories of the system',
      'pools:\n  a: { kind: directory, path: /usr }\n',
      /:2:25: pools.a.path: \/usr belongs to/,
    ],
    ['an unknown filesystem', 'pools:\n  a: { defaultFilesystem: ext3 }\n', /:2:8: pools.a.defaultFilesystem/],
    ['too small an overcommit', 'pools:\n  a: { overcommit: 0.5 }\n', /:2:8: pools.a.overcommit/],
    [
      'a default pool that is not',
      'pools:\n  a: {}\ndefaultPool: b\n',
      /:3:1: defaultPool: there is no such pool; there is a/,
    ],
    ['several pools, no default', 'pools:\n  a: {}\n  b: {}\n', /set defaultPool/],
    ['a list instead of a map', '- a\n', /:1:1: /],
    ['a negative patience', 'lockTimeoutSeconds: -1\n', /:1:1: lockTimeoutSeconds/],
    ['two documents', 'expansion: node\n---\nexpansion: node\n', /:2:1: /],
    ['an open quote', "defaultPool: 'a\n", /:2:1: lacks a closing quote, a colon, a comma or a blank: /],
    ['a stray bracket', 'pools: ]\n', /:1:8: has a character that cannot be here, or lacks a closing bracket: /],
    ['a backslash', 'defaultPool: "a\\q"\n', /:1:\d+: has a backslash that means nothing in "…": /],
    ['a tag', 'pools: !ruby/object {}\n', /:1:8: has a tag \(!…\) that means nothing here: remove it$/],
    ['an anchor twice', 'pools: &a &b {}\n', /:1:11: has two anchors \(&name\): one is enough$/],
    ['an open bracket', 'pools: {\na: {}\n', /:2:1: is indented in a way that fits nothing above[^\n]*$/],
    ['an alias to nothing', 'pools: *x\n', /:1:8: /],
  ];
  for (const [what, text, expected] of mistakes) {
    test(`${what} is refused, with its place`, async () => {
      const parsed = text === '' ? await parseConfig(source({ HOLDFAST_CONFIG: '/nowhere.yaml' })) : await ofFile(text);
      assert.match(problems(parsed).join('\n'), expected);
    });
  }

  test('a pool of each kind, with the keys that its kind has', async () => {
    const text =
      'pools:\n  a: { kind: image }\n  b: { kind: directory, path: /srv/b/, undelete: 1d }\n  c: { kind: lvm, volumeGroup: v }\ndefaultPool: a\n';
    const { pools } = valid(await ofFile(text));
    assert.deepEqual(
      pools.map(({ kind, own, undeleteSeconds }) => ({ kind, own, undeleteSeconds })),
      [
        { kind: 'image', own: { location: { type: 'auto', sizeBytes: undefined } }, undeleteSeconds: 0 },
        { kind: 'directory', own: { path: '/srv/b', quota: 'whenAvailable' }, undeleteSeconds: 86_400 },
        { kind: 'lvm', own: { volumeGroup: 'v', devices: [], wipe: 'discard' }, undeleteSeconds: 0 },
      ],
    );
  });

  test('all mistakes of a file come at once, in its order', async () => {
    const found = problems(
      await ofFile('expansion: x\npools:\n  a:\n    sise: 1\n    overcommit: no\nlockTimeout: 3\n'),
    );
    assert.deepEqual(
      found.map((problem) => problem.split(':')[1]),
      ['1', '4', '5', '6'],
    );
  });

  test('mistakes of every kind come at once: in values, between keys, between pools, and twice a key', async () => {
    const found = problems(
      await ofFile(
        [
          'defaultPool: fats',
          'pools:',
          '  Fast: { device: /dev/sdb, file: /srv/fast.img }',
          '  big: { directory: /srv/big }',
          '  inner: { directory: /srv/big/inner, overcommit: 0 }',
          '  same: { directory: /srv//big }',
          'attach: none',
          'attach: none',
        ].join('\n'),
      ),
    );
    assert.deepEqual(
      found.map((problem) => problem.replace(/^\/etc\/holdfast.yaml:(\d+):\d+: (\S+) .*$/, '$1 $2')),
      [
        '1 defaultPool:',
        '3 pools.Fast:',
        '3 pools.Fast.file:',
        '5 pools.inner:',
        '5 pools.inner.overcommit:',
        '6 pools.same:',
        '8 the',
      ],
    );
    assert.match(found[1] ?? '', /such as fast$/);
  });

  test('a pool may name the very place that it would get by itself', async () => {
    const own = 'pools:\n  default: { file: /var/lib/holdfast/pools/default.img, size: 50Gi }\n';
    assert.equal(valid(await ofFile(own)).pools.length, 1);
  });

  test("YAML's merge keys and aliases mean what they say, and mistakes in them are found where they are written", async () => {
    const text = (overcommit: string) =>
      [
        'pools:',
        '  a: &usual',
        `    overcommit: ${overcommit}`,
        '    undelete: 24h',
        '    directory: /srv/a',
        '  b:',
        '    <<: *usual',
        '    directory: /srv/b',
        'defaultPool: a',
      ].join('\n');
    const { pools } = valid(await ofFile(text('2')));
    assert.deepEqual(
      pools.map(({ own, overcommit, undeleteSeconds }) => ({ own, overcommit, undeleteSeconds })),
      ['/srv/a', '/srv/b'].map((path) => ({
        own: { location: { type: 'directory', path } },
        overcommit: 2,
        undeleteSeconds: 86_400,
      })),
    );
    const found = problems(await ofFile(text('none')));
    assert.deepEqual(
      found.map((problem) => problem.split(' must')[0]),
      ['a', 'b'].map((name) => `/etc/holdfast.yaml:3:5: pools.${name}.overcommit:`),
    );
  });

  test('no text makes it throw, and all it says of a wrong one is a sentence of ours with a place', async () => {
    const words = fc.constantFrom(
      'pools',
      ': ',
      '\n',
      '  ',
      '{',
      '}',
      '- ',
      'size',
      '10Gi',
      'device: /',
      'directory: /x',
      '__proto__: ',
      'undelete: ',
      'a: ',
      '1',
      '&a ',
      '*a',
      '<<',
      '!!x',
      '"',
      '|',
    );
    const anything = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(words).map((parts) => parts.join('')),
    );
    await fc.assert(
      fc.asyncProperty(anything, async (text) => {
        const parsed = await ofFile(text);
        if ('config' in parsed) return;
        assert.ok(parsed.problems.length > 0);
        for (const problem of parsed.problems) {
          // A file without pools is right in itself: only a home may have it.
          assert.match(problem, /^(\/etc\/holdfast\.yaml:\d+:\d+: \S|pools: name at least one pool, )/);
          assert.doesNotMatch(problem, /Invalid |Unrecognized |Too (big|small)|received |undefined|\n +at /);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

function parsed(result: Parsed<Config>): { config: Config } {
  return { config: valid(result) };
}
