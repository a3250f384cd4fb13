import assert from 'node:assert/strict';
import { findVolume } from '../../src/cli/look/find-volume.ts';
import { problemLine } from '../../src/cli/output/output.ts';
import { parseServeConfig } from '../../src/config/config.ts';
import { HoldfastError } from '../../src/volume/errors.ts';
import { holdfast } from '../support/command.ts';

/** Configurations that the driver does not start with. The one mistake of each is thrown. */
const configurations: Readonly<
  Record<string, { readonly environment?: Record<string, string>; readonly file?: string }>
> = {
  'the configuration file is not there': { environment: { HOLDFAST_CONFIG: '/nowhere.yaml' } },
  'a variable is misspelt': { environment: { HOLDFAST_DATTA: '/srv' } },
  'no socket is named': { environment: { CSI_ENDPOINT: '' } },
  'a variable has a value that cannot be': { environment: { HOLDFAST_LOG_LEVEL: 'loud' } },
  'a path is not absolute': { environment: { HOLDFAST_KUBELET_DIR: 'kubelet' } },
  'a key is misspelt': { file: 'pools:\n  a:\n    sise: 1Gi\n' },
  'a key is of another kind': { file: 'pools:\n  a: { kind: directory, path: /srv/a, size: 1Gi }\n' },
  'a key belongs in another section': { file: 'pools:\n  a: { kind: lvm, volumeGroup: vg0, overcommit: 2 }\n' },
  'a size has a unit that is none': { file: 'pools:\n  a: { size: 10 GB }\n' },
  'a size has no unit': { file: 'pools:\n  a: { size: 10 }\n' },
  'a word is none of those that there are': { file: 'pools:\n  a: { trim: always }\n' },
  'two pools are in one place': {
    file: 'defaultPool: a\npools:\n  a: { directory: /srv/x }\n  b: { directory: /srv/x }\n',
  },
  'a pool is in a directory of the system': { file: 'pools:\n  a: { directory: /usr/a }\n' },
  'no pool is the default': { file: 'pools:\n  a: {}\n  b: {}\n' },
  'a tab in the file': { file: 'pools:\n\ta: {}\n' },
  'a key twice': { file: 'attach: none\nattach: none\n' },
  'a quote that is not closed': { file: "defaultPool: 'a\n" },
};

/** Commands that are typed in a wrong way, or where they cannot work. */
const commands: Readonly<Record<string, readonly string[]>> = {
  'a command is misspelt': ['pols'],
  'an option is misspelt': ['pools', '--jsn'],
  'a command lacks its volume': ['who'],
  'nothing of that name is on the node': ['volumes', 'shop/data'],
  'no driver runs': ['trash'],
};

/** Each throws what the user reads. */
export const wrongInput: Readonly<Record<string, () => Promise<never>>> = {
  ...Object.fromEntries(
    Object.entries(configurations).map(([name, given]) => [name, () => refusedConfiguration(given)]),
  ),
  'the directory of the socket is not there': () =>
    refusedCommand(['serve'], { CSI_ENDPOINT: 'unix:///nowhere/csi.sock', HOLDFAST_NODE_ID: 'node-1' }),
  ...Object.fromEntries(Object.entries(commands).map(([name, args]) => [name, () => refusedCommand(args)])),
  'several volumes have that claim': async () => {
    const claim = { namespace: 'shop', name: 'data' };
    const volumes = ['pvc-1', 'pvc-2'].map((name) => ({ id: `vol-${name}`, name, claim, pool: 'default' }));
    try {
      findVolume(volumes, 'shop/data', 'here');
    } catch (error) {
      assert.ok(error instanceof HoldfastError);
      throw new Error(problemLine(error.code, error.message, { json: false }));
    }
    return assert.fail('one was found');
  },
};

async function refusedConfiguration(given: { environment?: Record<string, string>; file?: string }): Promise<never> {
  const file = given.file === undefined ? {} : { HOLDFAST_CONFIG: '/etc/holdfast.yaml' };
  const parsed = await parseServeConfig({
    environment: { CSI_ENDPOINT: 'unix:///run/holdfast/csi.sock', ...file, ...given.environment },
    hostName: 'node-1',
    readFile: () => {
      if (given.file === undefined) throw Object.assign(new Error('not there'), { code: 'ENOENT' });
      return given.file;
    },
  });
  assert.ok('problems' in parsed, 'nothing was refused');
  assert.equal(parsed.problems.length, 1, parsed.problems.join('\n'));
  throw new Error(problemLine('INVALID_ARGUMENT', parsed.problems[0] ?? '', { json: false }));
}

async function refusedCommand(args: readonly string[], environment: Record<string, string> = {}): Promise<never> {
  const { code, stderr, stdout } = await holdfast(args, { HOLDFAST_DATA: '/run/holdfast-nowhere', ...environment });
  assert.notEqual(code, 0, stdout);
  throw new Error(stderr.trimEnd());
}
