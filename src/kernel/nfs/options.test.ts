import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseNfsOptions } from './options.ts';

/** Options as they stand after -o. */
function parse(text: string): ReturnType<typeof parseNfsOptions> {
  const words = text === '' ? [] : text.split(',');
  return parseNfsOptions(
    words.map((word) => {
      const [key = '', value] = word.split('=');
      return value === undefined ? [key] : [key, value];
    }),
  );
}

test('options that users of other drivers have are taken, and what is for mount.nfs alone is left out', () => {
  assert.deepEqual(parse(''), { parameters: [], version: undefined, port: undefined });
  assert.deepEqual(parse('nfsvers=4.1,hard,timeo=600,retrans=2,noresvport,nconnect=4,nolock,bg,retry=2,port=12049'), {
    parameters: [['hard'], ['timeo', '600'], ['retrans', '2'], ['noresvport'], ['nconnect', '4']],
    version: '4.1',
    port: 12_049,
    version3: [['nolock']],
  });
  assert.deepEqual(parse('vers=3,mountport=20048,nolock,mountproto=tcp'), {
    ...{ parameters: [], version: '3', port: undefined },
    version3: [['mountport', '20048'], ['nolock']],
  });
  assert.deepEqual(parse('minorversion=2,vers=4'), { parameters: [], version: undefined, port: undefined });
});

test('what would reach another server, another version or another cache is refused, and never repeated', () => {
  for (const secret of [
    'addr=6.6.6.6',
    'mountaddr=6.6.6.6',
    'mountport=x',
    'mounthost=6.6.6.6',
    'clientaddr=6.6.6.6',
    'proto=udp',
    'sec=xyzzy',
    'xyzzy',
    'timeo=1h',
  ]) {
    const parsed = parse(`hard,${secret}`);
    assert.ok('mistake' in parsed, secret);
    assert.match(parsed.mistake, /^option 2 of 2 is none that a volume on NFS takes/);
    assert.doesNotMatch(parsed.mistake, /6\.6|xyzzy|udp|1h/);
  }
  for (const version of ['vers=2', 'nfsvers=4.0', 'minorversion=3', 'minorversion=0', 'vers'])
    assert.ok('mistake' in parse(version), version);
  assert.ok('mistake' in parse('port=70000'));
});
