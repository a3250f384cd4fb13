import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Mistake, SectionReader } from '../../../settings/section.ts';
import { readNfsOptions } from './config.ts';

function read(section: Record<string, unknown>) {
  const mistakes: Mistake[] = [];
  const options = readNfsOptions(new SectionReader(section, [], mistakes));
  return { options, mistakes: mistakes.map(({ message, path }) => `${path.join('.')}: ${message}`) };
}

const base = { server: 'nas.example.com', share: '/export' };

test('a pool on NFS needs a server and a share, and all else has a default', () => {
  assert.deepEqual(read(base), {
    options: {
      exported: { host: 'nas.example.com', share: '/export' },
      path: 'holdfast',
      options: { parameters: [], version: undefined, port: undefined },
      mountOptions: '',
      onDelete: 'delete',
    },
    mistakes: [],
  });
  const { options } = read({
    ...base,
    server: '[fd00::1]',
    share: '/export//k8s/',
    mountOptions: ['nfsvers=4.1,hard', 'port=12049'],
  });
  assert.deepEqual(options.exported, { host: 'fd00::1', share: '/export/k8s' });
  assert.deepEqual(options.options, { parameters: [['hard']], version: '4.1', port: 12_049 });
  assert.match(read({}).mistakes.join('\n'), /needs a server.*\n.*needs a share/);
});

test('what would lead out of the share, or to another server, is a mistake', () => {
  const wrong: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ path: '..' }, /must be a path in the share without '\.\.'/],
    [{ path: 'a/../../b' }, /must be a path in the share/],
    [{ path: '/holdfast' }, /must be a path in the share/],
    [{ path: 'holdfast/' }, /must be a path in the share/],
    [{ path: '' }, /must be a path in the share/],
    [{ path: 'a\0b' }, /must be a path in the share/],
    [{ server: 'nas:/export' }, /must be the name or the address of a server/],
    [{ server: 'nas,addr=6.6.6.6' }, /must be the name or the address of a server/],
    [{ server: '-nas' }, /must be the name or the address of a server/],
    [{ share: 'export' }, /must be an absolute path/],
    [{ mountOptions: ['hard', 'addr=6.6.6.6'] }, /option 2 of 2 is none that a volume on NFS takes/],
    [{ mountOptions: ['vers=4.0'] }, /a version of NFS that is not mounted: 4\.2, 4\.1 and 3 are/],
    [{ mountOptions: ['vers=3'] }, /asks for NFS 3: the lock of a pool needs NFS 4/],
    [{ onDelete: 'keep' }, /must be one of delete, retain, archive/],
  ];
  for (const [section, words] of wrong)
    assert.match(read({ ...base, ...section }).mistakes.join('\n'), words, JSON.stringify(section));
});
