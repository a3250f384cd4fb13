import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { VolumeCapability } from '../volume/capability.ts';
import { type ErrorCode, HoldfastError } from '../volume/errors.ts';
import { volumeIdFor } from '../volume/id.ts';
import { completeAttributes } from './mount-options.ts';
import {
  type EphemeralFacts,
  type MountedOccupant,
  type PublishFacts,
  planEphemeral,
  planPublish,
  planStage,
  planUnpublish,
  planUnstage,
  type StageFacts,
  type UnpublishFacts,
  type UnstageFacts,
} from './plan.ts';

const ours = volumeIdFor('node', 'pool', 'ours');
const other = volumeIdFor('node', 'pool', 'other');

const plain = completeAttributes({});
const readonly = completeAttributes({ readonly: true });

/** Our filesystem, mounted as it usually is. */
const mounted: MountedOccupant = {
  kind: 'mount',
  volumeId: ours,
  access: 'mount',
  isWhole: true,
  attributes: plain,
  coversOwn: false,
};
const device: MountedOccupant = { ...mounted, access: 'block' };
const foreign: MountedOccupant = { ...mounted, volumeId: undefined };
const staleDevice: MountedOccupant = { ...device, volumeId: undefined };
const emptyDirectory = { kind: 'directory', isEmpty: true } as const;
const fullDirectory = { kind: 'directory', isEmpty: false } as const;
const emptyFile = { kind: 'file', isEmpty: true } as const;
const fullFile = { kind: 'file', isEmpty: false } as const;

/** One row: the difference from the usual facts, and the plan, or the code of the refusal and a word of its message. */
type Row<Facts, Plan> = readonly [what: string, changes: Partial<Facts>, expected: Plan | readonly [ErrorCode, RegExp]];

function table<Facts, Plan extends string>(
  plan: (facts: Facts) => Plan,
  usual: Facts,
  rows: readonly Row<Facts, Plan>[],
): void {
  for (const [what, changes, expected] of rows) {
    test(what, () => {
      const facts = { ...usual, ...changes };
      if (typeof expected === 'string') {
        assert.equal(plan(facts), expected);
        return;
      }
      const [code, words] = expected;
      assert.throws(
        () => plan(facts),
        (error) => {
          assert.ok(error instanceof HoldfastError, `${error}`);
          assert.equal(error.code, code);
          assert.match(error.message, words);
          return true;
        },
      );
    });
  }
}

describe('planStage', () => {
  const usual: StageFacts = {
    volumeId: ours,
    path: '/staging',
    wanted: { access: 'mount', attributes: plain },
    at: emptyDirectory,
    noted: 'unknown',
    stagedElsewhere: undefined,
  };
  const block = { wanted: { access: 'block', attributes: plain } } as const;
  table(planStage, usual, [
    ['an empty directory', {}, 'mount'],
    ['an empty directory, whatever the note of an earlier stage says (ST10)', { noted: 'different' }, 'mount'],
    ['the same stage again (ST04)', { at: mounted, noted: 'same' }, 'nothing'],
    ['the same stage again, without a note', { at: mounted }, 'nothing'],
    ['another capability (ST06)', { at: mounted, noted: 'different' }, ['ALREADY_EXISTS', /other arguments/]],
    [
      'other flags, without a note (ST06)',
      { at: { ...mounted, attributes: readonly } },
      ['ALREADY_EXISTS', /other arguments/],
    ],
    ['a directory of the volume only', { at: { ...mounted, isWhole: false } }, ['ALREADY_EXISTS', /other arguments/]],
    ['another volume (PB18)', { at: { ...mounted, volumeId: other } }, ['ALREADY_EXISTS', new RegExp(other)]],
    ['a foreign mount (PB18)', { at: foreign }, ['ALREADY_EXISTS', /something foreign/]],
    ['data in the directory', { at: fullDirectory }, ['ALREADY_EXISTS', /hide/]],
    ['staged elsewhere', { stagedElsewhere: '/old' }, ['FAILED_PRECONDITION', /\/old/]],
    ['block: nothing there', { ...block, at: { kind: 'nothing' } }, 'mount'],
    ['block: an empty file of an earlier try', { ...block, at: emptyFile }, 'mount'],
    ['block: a file with data', { ...block, at: fullFile }, ['ALREADY_EXISTS', /hide/]],
    ['block: a directory', { ...block, at: emptyDirectory }, ['ALREADY_EXISTS', /no file/]],
    ['block: staged', { ...block, at: device, noted: 'same' }, 'nothing'],
    ['block: staged, and published read-only', { ...block, at: { ...device, attributes: readonly } }, 'nothing'],
    ['block: a device that is gone (ST10)', { ...block, at: staleDevice }, 'restore'],
    ['block: the device of another volume', { ...block, at: { ...device, volumeId: other } }, ['ALREADY_EXISTS', /./]],
    ['a device where a filesystem should be', { at: staleDevice }, ['ALREADY_EXISTS', /./]],
  ]);
});

describe('planUnstage', () => {
  const usual: UnstageFacts = { volumeId: ours, path: '/staging', at: mounted, publishedAt: [] };
  table(planUnstage, usual, [
    ['staged', {}, 'unmount'],
    ['not staged (US04)', { at: emptyDirectory }, 'nothing'],
    ['no such directory (US04)', { at: { kind: 'nothing' } }, 'nothing'],
    ['data in the directory', { at: fullDirectory }, 'nothing'],
    ['published (US06)', { publishedAt: ['/a'] }, ['FAILED_PRECONDITION', /published at \/a:/]],
    ['published twice (US06)', { publishedAt: ['/a', '/b'] }, ['FAILED_PRECONDITION', /1 other/]],
    [
      'unmounted by somebody, but published (US06)',
      { at: emptyDirectory, publishedAt: ['/a'] },
      ['FAILED_PRECONDITION', /./],
    ],
    ['another volume there', { at: { ...mounted, volumeId: other } }, 'nothing'],
    ['a foreign mount there', { at: foreign }, 'nothing'],
    ['a foreign mount over ours', { at: { ...foreign, coversOwn: true } }, ['FAILED_PRECONDITION', /mounted over/]],
    ['a device that is gone', { at: staleDevice }, 'unmount'],
  ]);
});

describe('planPublish', () => {
  const writer: VolumeCapability = {
    access: { type: 'mount', fsType: undefined, mountFlags: [] },
    mode: 'SINGLE_NODE_WRITER',
  };
  const usual: PublishFacts = {
    volumeId: ours,
    path: '/target',
    stagingPath: '/staging',
    capability: writer,
    wanted: { access: 'mount', attributes: plain },
    at: { kind: 'nothing' },
    staged: mounted,
    wantedStaged: { access: 'mount', attributes: plain },
    noted: 'same',
    publishedAt: [],
    publishedOtherwise: [],
  };
  const block = {
    wanted: { access: 'block', attributes: plain },
    wantedStaged: { access: 'block', attributes: plain },
    staged: device,
  } as const;
  const inMode = (mode: VolumeCapability['mode']) => ({ capability: { ...writer, mode }, publishedAt: ['/first'] });
  table(planPublish, usual, [
    ['nothing at the target', {}, 'make-target'],
    ['an empty directory at the target (PB16)', { at: emptyDirectory }, 'use-target'],
    ['data at the target', { at: fullDirectory }, ['ALREADY_EXISTS', /hide/]],
    ['a file at the target', { at: emptyFile }, ['ALREADY_EXISTS', /no directory/]],
    ['something odd at the target', { at: { kind: 'other' } }, ['ALREADY_EXISTS', /no directory/]],
    ['the target is the staging path', { path: '/staging' }, ['INVALID_ARGUMENT', /same/]],
    ['not staged (PB13)', { staged: emptyDirectory }, ['FAILED_PRECONDITION', /not staged/]],
    ['no staging directory (PB13)', { staged: { kind: 'nothing' } }, ['FAILED_PRECONDITION', /not staged/]],
    [
      'another volume is staged there (PB13)',
      { staged: { ...mounted, volumeId: other } },
      ['FAILED_PRECONDITION', /./],
    ],
    ['the same publish again (PB05)', { at: mounted, noted: 'same' }, 'nothing'],
    ['the same publish again, without a note', { at: mounted, noted: 'unknown' }, 'nothing'],
    ['other arguments (PB07)', { at: mounted, noted: 'different' }, ['ALREADY_EXISTS', /other arguments/]],
    ['another readonly, without a note (PB07)', { at: { ...mounted, attributes: readonly } }, ['ALREADY_EXISTS', /./]],
    [
      'the same target with another capability: ALREADY_EXISTS before FAILED_PRECONDITION (PB10)',
      { at: mounted, noted: 'different' },
      ['ALREADY_EXISTS', /./],
    ],
    ['another volume at the target (PB18)', { at: { ...mounted, volumeId: other } }, ['ALREADY_EXISTS', /./]],
    ['a foreign mount at the target (PB18)', { at: foreign }, ['ALREADY_EXISTS', /./]],
    ['staged with another capability (PB10)', { noted: 'different' }, ['FAILED_PRECONDITION', /another/]],
    ['staged without a note', { noted: 'unknown' }, 'make-target'],
    [
      'staged with other flags, without a note (PB10)',
      { noted: 'unknown', staged: { ...mounted, attributes: readonly } },
      ['FAILED_PRECONDITION', /another/],
    ],
    [
      'a second target, SINGLE_NODE_SINGLE_WRITER (PB06)',
      inMode('SINGLE_NODE_SINGLE_WRITER'),
      ['FAILED_PRECONDITION', /\/first/],
    ],
    ['a second target, SINGLE_NODE_WRITER (PB09)', inMode('SINGLE_NODE_WRITER'), ['FAILED_PRECONDITION', /\/first/]],
    [
      'a second target, SINGLE_NODE_READER_ONLY (PB08)',
      inMode('SINGLE_NODE_READER_ONLY'),
      ['FAILED_PRECONDITION', /\/first/],
    ],
    ['a second target, SINGLE_NODE_MULTI_WRITER (PB08)', inMode('SINGLE_NODE_MULTI_WRITER'), 'make-target'],
    ['block: nothing at the target', block, 'make-target'],
    ['block: an empty file at the target (PB16)', { ...block, at: emptyFile }, 'use-target'],
    ['block: a directory at the target', { ...block, at: emptyDirectory }, ['ALREADY_EXISTS', /no file/]],
    ['block: published', { ...block, at: device }, 'nothing'],
    [
      'block: published read-only (PB07)',
      { ...block, at: { ...device, attributes: readonly } },
      ['ALREADY_EXISTS', /./],
    ],
    [
      'block: published writable elsewhere (PB14)',
      { ...block, wanted: { access: 'block', attributes: readonly }, publishedOtherwise: ['/first'] },
      ['FAILED_PRECONDITION', /published writable at \/first/],
    ],
    [
      'block: published read-only elsewhere (PB14)',
      { ...block, publishedOtherwise: ['/first'] },
      ['FAILED_PRECONDITION', /published read-only at \/first/],
    ],
    [
      'block: published read-only elsewhere, and here already',
      { ...block, at: device, publishedOtherwise: ['/first'] },
      'nothing',
    ],
    [
      'block: staged, and its device takes no writes',
      { ...block, noted: 'unknown', staged: { ...device, attributes: readonly } },
      'make-target',
    ],
    ['block: a filesystem at the target', { ...block, at: mounted }, ['ALREADY_EXISTS', /./]],
    ['block, but a filesystem is staged', { ...block, staged: mounted }, ['FAILED_PRECONDITION', /not staged/]],
  ]);
});

describe('planEphemeral', () => {
  const usual: EphemeralFacts = {
    volumeId: ours,
    path: '/target',
    wanted: { access: 'mount', attributes: plain },
    at: { kind: 'nothing' },
    noted: 'different',
  };
  table(planEphemeral, usual, [
    ['nothing there', {}, 'make-target'],
    ['an empty directory of the caller or of a try that was cut short (PB16)', { at: emptyDirectory }, 'use-target'],
    ['a directory with data', { at: fullDirectory }, ['ALREADY_EXISTS', /hide/]],
    ['a file', { at: emptyFile }, ['ALREADY_EXISTS', /no directory/]],
    ['the same publish again (PB05)', { at: mounted, noted: 'same' }, 'nothing'],
    ['other arguments (PB07)', { at: mounted }, ['ALREADY_EXISTS', /other arguments/]],
    ['mounted, and its record is gone', { at: mounted, noted: 'unknown' }, ['ALREADY_EXISTS', /other arguments/]],
    ['another readonly (PB07)', { at: { ...mounted, attributes: readonly }, noted: 'same' }, ['ALREADY_EXISTS', /./]],
    ['another volume (PB18)', { at: { ...mounted, volumeId: other }, noted: 'same' }, ['ALREADY_EXISTS', /./]],
    ['a foreign mount (PB18)', { at: foreign, noted: 'same' }, ['ALREADY_EXISTS', /something foreign/]],
  ]);
});

describe('planUnpublish', () => {
  const usual: UnpublishFacts = { volumeId: ours, path: '/target', at: mounted, isStagingPath: false, isNoted: true };
  table(planUnpublish, usual, [
    ['published', {}, 'unmount'],
    ['published, without a note (UP08)', { isNoted: false }, 'unmount'],
    ['with any flags, a device too', { at: { ...device, attributes: readonly } }, 'unmount'],
    ['nothing there (UP05)', { at: { kind: 'nothing' } }, 'nothing'],
    ['unmounted, an empty directory (UP05)', { at: emptyDirectory }, 'remove-directory'],
    ['unmounted, an empty file (UP05)', { at: emptyFile }, 'remove-file'],
    ['a directory with data (UP06)', { at: fullDirectory }, ['FAILED_PRECONDITION', /move it away/]],
    ['a file with data (UP06)', { at: fullFile }, ['FAILED_PRECONDITION', /move it away/]],
    ['a device node that is no mount of ours', { at: { kind: 'other' } }, ['FAILED_PRECONDITION', /: remove it\./]],
    ['another volume (UP07)', { at: { ...mounted, volumeId: other } }, 'leave'],
    ['a foreign mount (UP07)', { at: foreign }, 'leave'],
    ['a foreign mount over ours', { at: { ...foreign, coversOwn: true } }, ['FAILED_PRECONDITION', /mounted over/]],
    ['the staging path (UP07)', { isStagingPath: true }, ['FAILED_PRECONDITION', /NodeUnstageVolume/]],
    ['a device that is gone, published by us', { at: staleDevice }, 'unmount'],
    ['a device that is gone, nobody knows whose', { at: staleDevice, isNoted: false }, 'leave'],
    ['an id that is none of ours', { volumeId: '../x' }, 'leave'],
  ]);
});
