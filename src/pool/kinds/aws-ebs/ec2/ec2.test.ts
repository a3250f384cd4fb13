import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { profileIn } from './credentials.ts';
import { DeviceNames } from './device-names.ts';
import { readVolume } from './ec2-cloud.ts';
import { itemsIn, NotXml, parseXml, textOf } from './xml.ts';

describe('answers of EC2', () => {
  test('elements, texts, entities and lists are read', () => {
    const text = `<?xml version="1.0" encoding="UTF-8"?>
      <!-- a comment -->
      <DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
        <volumeSet><item><volumeId>vol-1</volumeId><size>8</size><empty/></item><item><volumeId>vol-2</volumeId></item></volumeSet>
        <note>a &lt;b&gt; &amp;amp; &#x41;&#66; &unknown;</note>
      </DescribeVolumesResponse>`;
    const answer = parseXml(text);
    assert.equal(answer.name, 'DescribeVolumesResponse');
    assert.deepEqual(
      itemsIn(answer, 'volumeSet').map((item) => textOf(item, 'volumeId')),
      ['vol-1', 'vol-2'],
    );
    assert.equal(textOf(answer, 'note'), 'a <b> &amp; AB &unknown;');
    assert.equal(textOf(answer, 'volumeSet', 'none'), '');
    assert.deepEqual(itemsIn(answer, 'none'), []);
  });

  for (const wrong of [
    '',
    'text',
    '<a>',
    '<a></b>',
    '<a/><b/>',
    '<a><b></a></b>',
    '<!DOCTYPE a><a/>',
    '<a><![CDATA[x]]></a>',
    '{"json": true}',
    '<a'.repeat(100),
    '<a>'.repeat(100),
  ]) {
    test(`${JSON.stringify(wrong.slice(0, 30))} is none`, () => {
      assert.throws(() => parseXml(wrong), NotXml);
    });
  }

  test('no text breaks the reader', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          parseXml(text);
        } catch (error) {
          assert.ok(error instanceof NotXml);
        }
      }),
    );
    assert.throws(() => parseXml(`<a ${' '.repeat(100_000)}`), NotXml);
  });

  test('a volume is read with its state and its attachment; one that the machine still has mounted is detaching', () => {
    const volume = (status: string, attachment: string) =>
      readVolume(
        parseXml(
          `<item><volumeId>vol-1</volumeId><size>8</size><status>${status}</status><availabilityZone>eu-1a</availabilityZone><createTime>2026-01-01T00:00:00.000Z</createTime><tagSet><item><key>k</key><value>v</value></item></tagSet><attachmentSet>${attachment}</attachmentSet></item>`,
        ),
      );
    const at = (status: string) => `<item><instanceId>i-1</instanceId><status>${status}</status></item>`;
    assert.deepEqual(volume('in-use', at('attached')), {
      id: 'vol-1',
      state: 'ready',
      sizeBytes: 8n << 30n,
      zone: 'eu-1a',
      createdMs: Date.parse('2026-01-01'),
      labels: { k: 'v' },
      attachments: [{ instance: 'i-1', state: 'attached' }],
    });
    assert.equal(volume('in-use', at('busy')).attachments[0]?.state, 'detaching');
    assert.deepEqual(volume('available', at('detached')).attachments, []);
    const states = ['creating', 'available', 'error', 'deleting', 'something new'].map(
      (each) => volume(each, '').state,
    );
    assert.deepEqual(states, ['making', 'ready', 'failed', 'going', 'making']);
  });
});

describe('the names of attached devices', () => {
  test('one that is taken, or was just tried, is not given out while there is another', () => {
    const names = new DeviceNames(1000);
    assert.equal(names.choose('i-1', new Set(), 0), '/dev/xvdaa');
    names.note('i-1', '/dev/xvdaa', 0);
    assert.equal(names.choose('i-1', new Set(['/dev/xvdab']), 1), '/dev/xvdac');
    assert.equal(names.choose('i-2', new Set(), 1), '/dev/xvdaa');
    assert.equal(names.choose('i-1', new Set(), 1001), '/dev/xvdaa');
  });

  test('when all were tried the oldest is given out, and none if all are taken', () => {
    const names = new DeviceNames(1000);
    const given = new Set<string>();
    for (let at = 0; ; at++) {
      const name = names.choose('i-1', given, at) ?? assert.fail();
      if (given.has(name)) break;
      given.add(name);
      names.note('i-1', name, at);
      if (given.size === 102) break;
    }
    assert.equal(names.choose('i-1', new Set(), 103), '/dev/xvdaa');
    assert.equal(names.choose('i-1', given, 103), undefined);
    assert.ok([...given].every((name) => /^\/dev\/xvd[a-d][a-z]$/.test(name)));
  });
});

describe('the shared file of credentials', () => {
  const text = `# comment
[default]
aws_access_key_id = AKIA1
aws_secret_access_key=secret1
[other]
aws_access_key_id = AKIA2
aws_secret_access_key = secret2
aws_session_token = token2
region = eu-central-1
[half]
aws_access_key_id = AKIA3
`;

  test('a profile is read, and half of one is none', () => {
    assert.deepEqual(profileIn(text, 'default'), {
      accessKeyId: 'AKIA1',
      secretAccessKey: 'secret1',
      sessionToken: undefined,
      expiresMs: undefined,
    });
    assert.equal(profileIn(text, 'other')?.sessionToken, 'token2');
    assert.equal(profileIn(text, 'half'), undefined);
    assert.equal(profileIn(text, 'none'), undefined);
  });
});
