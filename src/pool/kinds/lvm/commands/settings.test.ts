import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configFor } from './settings.ts';

const usual = { hasUdev: true, hasThinPool: false };

test('lvm 1: what LVM says beside a report is heard, whatever its version', () => {
  assert.match(configFor('fullreport', usual), /log\{report_command_log=0\}/);
});

test('lvm 5: no threshold of the node keeps a thin pool from being used', () => {
  assert.match(
    configFor('lvcreate', { ...usual, hasThinPool: true }),
    /activation\{[^}]*thin_pool_autoextend_threshold=100/,
  );
  assert.doesNotMatch(configFor('lvcreate', usual), /threshold/);
});

test('lvm 10: no old text of the group is kept, unless its disks change', () => {
  for (const command of ['lvcreate', 'lvchange', 'lvremove', 'lvextend', 'vgck']) {
    assert.match(configFor(command, usual), /backup\{archive=0\}/, command);
  }
  for (const command of ['vgcreate', 'vgextend']) assert.doesNotMatch(configFor(command, usual), /backup/, command);
});

test('lvm 11: an LVM beside the one of the node locks where that does', () => {
  assert.match(
    configFor('lvcreate', { ...usual, lockDirectory: '/proc/1/root/run/lock/lvm' }),
    /global\{locking_dir="\/proc\/1\/root\/run\/lock\/lvm"\}/,
  );
  assert.doesNotMatch(configFor('lvcreate', usual), /global/);
});

test('where udev does not answer, LVM does not wait for it; what was wiped is not discarded again', () => {
  assert.match(configFor('lvcreate', { ...usual, hasUdev: false }), /udev_sync=0 udev_rules=0/);
  assert.doesNotMatch(configFor('lvcreate', usual), /udev/);
  assert.match(configFor('lvremove', usual), /devices\{scan_lvs=0 issue_discards=0\}/);
});
