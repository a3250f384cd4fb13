import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';
import { Scratch } from '../support/scratch.ts';

const right = [
  'pools: { default: { reserve: 1Gi } }',
  'nodes:',
  '  db-*:',
  '    pools: { fast: { kind: lvm, volumeGroup: vg0 }, slow: {} }',
  '    defaultPool: fast',
].join('\n');

function check(scratch: Scratch, text: string, ...args: string[]) {
  writeFileSync(scratch.join('holdfast.yaml'), text);
  // Where the driver's own configuration is wrong, and on a machine that is no node, it works as well.
  const environment = { HOLDFAST_CONFIG: '/nowhere.yaml', PATH: '/nowhere' };
  return holdfast(['config', 'check', scratch.join('holdfast.yaml'), ...args], environment);
}

describe('holdfast config check', () => {
  test('shows which nodes get which pools', async () => {
    using scratch = new Scratch('config');
    const { code, stderr, stdout } = await check(scratch, right);
    assert.deepEqual([code, stderr], [0, '']);
    assert.deepEqual(stdout.trimEnd().split('\n'), [
      'NODES       DEFAULT  POOLS',
      'all others  default  default (image)',
      'db-*        fast     fast (lvm), slow (image)',
    ]);
  });

  test('shows what one node gets', async () => {
    using scratch = new Scratch('config');
    const { stdout } = await check(scratch, right, '--node', 'db-7', '--json');
    const pools = [
      { name: 'fast', kind: 'lvm' },
      { name: 'slow', kind: 'image' },
    ];
    assert.deepEqual(JSON.parse(stdout), { sections: [{ nodes: 'db-7', defaultPool: 'fast', pools }] });
  });

  test('what docs/configuration.md shows is so', async () => {
    using scratch = new Scratch('config');
    const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
    const part = page.slice(page.indexOf('## Nodes that differ'));
    const file = /```yaml\n(.*?)```/s.exec(part)?.[1] ?? '';
    const shown = /```\n\$ holdfast config check holdfast\.yaml\n(.*?)```/s.exec(part)?.[1];
    const { stdout } = await check(scratch, file);
    assert.equal(stdout, shown);
  });

  test('two patterns for one node: refused if that is so for all nodes of one of them, else told', async () => {
    using scratch = new Scratch('config');
    const contained = await check(scratch, 'nodes: { db-*: {}, db-1*: {} }');
    assert.deepEqual([contained.code, contained.stdout], [2, '']);
    assert.match(
      contained.stderr,
      /holdfast\.yaml: nodes 'db-1\*' and 'db-\*': a node that fits the first fits the second, too/,
    );
    const crossing = await check(scratch, 'nodes: { db-*: {}, "*-ssd": {} }');
    assert.equal(crossing.code, 0);
    assert.match(crossing.stderr, /nodes 'db-\*' and '\*-ssd': a node whose name fits both would not start/);
    assert.match(crossing.stdout, /^db-\*/m);
  });

  test('pools that one driver cannot have are refused, as they are by serve', async () => {
    using scratch = new Scratch('config');
    const file = 'defaultPool: a\npools:\n  a: { kind: nfs, server: nas, share: /export }\n  b: {}\n';
    const { code, stderr } = await check(scratch, file);
    assert.equal(code, 2);
    assert.match(
      stderr,
      /holdfast\.yaml:2:1: pools: every node can reach pool a \(nfs\), and pool b \(image\) lies on/,
    );
  });

  test('an empty file gives all nodes one pool', async () => {
    using scratch = new Scratch('config');
    const { stdout } = await check(scratch, '');
    assert.equal(stdout, 'NODES  DEFAULT  POOLS\nall    default  default (image)\n');
  });

  test('tells all mistakes of all sections, with their places', async () => {
    using scratch = new Scratch('config');
    const text = 'pools: { a: { sise: 1Gi } }\nnodes:\n  web-1:\n    pools: { a: { kind: zfs } }\n';
    const { code, stderr, stdout } = await check(scratch, text);
    assert.deepEqual([code, stdout], [2, '']);
    const [first = '', second = '', ...more] = stderr.trimEnd().split('\n');
    assert.match(first, /^holdfast: \S+holdfast\.yaml:1:15: pools\.a\.sise: unknown key \(did you mean 'size'\?\)$/);
    assert.match(second, /holdfast\.yaml:4:19: nodes\.web-1\.pools\.a\.kind: must be one of /);
    assert.deepEqual(more, []);
  });

  test('a file that is not there is named', async () => {
    const { code, stderr } = await holdfast(['config', 'check', '/nowhere.yaml', '--json'], {});
    assert.equal(code, 2);
    assert.match(JSON.parse(stderr).message, /^name a file that is there: there is no \/nowhere\.yaml$/);
  });
});
