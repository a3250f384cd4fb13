import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { alertNames, sicknessTests, testRules } from './rules.ts';

const target = 'job="holdfast-system/holdfast", instance="10.0.0.1:9808", node="n1"';
const pool = `${target}, pool="default"`;

/** A node that is well, for an hour: a series and its value each minute, in promtool's notation. */
const healthy: Readonly<Record<string, string>> = {
  [`up{${target}}`]: '1x60',
  [`process_start_time_seconds{${target}}`]: '1000x60',
  [`holdfast_pool_state{${pool}, state="open"}`]: '1x60',
  [`holdfast_pool_state{${pool}, state="failed"}`]: '0x60',
  [`holdfast_pool_measured{${pool}}`]: '1x60',
  [`holdfast_pool_total_bytes{${pool}}`]: '1000x60',
  // 15 % full: with clones, what their images take together may be more than all there is.
  [`holdfast_pool_used_bytes{${pool}}`]: '950x60',
  [`holdfast_pool_disk_bytes{${pool}}`]: '1000x60',
  [`holdfast_pool_disk_free_bytes{${pool}}`]: '850x60',
  [`holdfast_pool_claimable_bytes{${pool}}`]: '300x60',
  [`holdfast_pool_available_bytes{${pool}}`]: '500x60',
  [`holdfast_pool_nearly_full{${pool}}`]: '0x60',
  [`holdfast_pool_damaged_records{${pool}}`]: '0x60',
  [`holdfast_csi_calls_total{${target}, rpc="CreateVolume", code="OK"}`]: '0+5x60',
  [`holdfast_csi_calls_total{${target}, rpc="CreateVolume", code="INTERNAL"}`]: '0x60',
  [`holdfast_csi_oldest_call_seconds{${target}}`]: '0x60',
  [`holdfast_disk_queue_places{${target}, queue="pool default"}`]: '4x60',
  [`holdfast_disk_queue_running{${target}, queue="pool default"}`]: '4x60',
  [`holdfast_disk_queue_waiting{${target}, queue="pool default"}`]: '0x60',
  [`holdfast_server_up{${target}, kind="nfs", server="nas"}`]: '1x60',
  [`holdfast_freeze_duration_seconds_bucket{${pool}, le="1"}`]: '0+1x60',
  [`holdfast_freeze_duration_seconds_bucket{${pool}, le="10"}`]: '0+1x60',
  [`holdfast_freeze_duration_seconds_bucket{${pool}, le="+Inf"}`]: '0+1x60',
};

/** What changes, and the alert that has to follow. */
const sicknesses: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  HoldfastDown: { [`up{${target}}`]: '0x60' },
  HoldfastAbsent: { [`up{${target}}`]: '_x60' },
  HoldfastRestarts: { [`process_start_time_seconds{${target}}`]: '1000+100x60' },
  HoldfastPoolNotOpen: {
    [`holdfast_pool_state{${pool}, state="open"}`]: '0x60',
    [`holdfast_pool_state{${pool}, state="failed"}`]: '1x60',
    // As it is for a pool that is not open.
    [`holdfast_pool_measured{${pool}}`]: '0x60',
  },
  HoldfastPoolSilent: { [`holdfast_pool_measured{${pool}}`]: '0x60' },
  HoldfastPoolNearlyFull: { [`holdfast_pool_nearly_full{${pool}}`]: '1x60' },
  // No more than 10 minutes, so that it is not yet the slow alert's turn.
  HoldfastPoolAlmostFull: { [`holdfast_pool_disk_free_bytes{${pool}}`]: '850x45 50x15' },
  HoldfastPoolFilling: {
    [`holdfast_pool_disk_free_bytes{${pool}}`]: '160x60',
    [`holdfast_pool_claimable_bytes{${pool}}`]: '10x60',
  },
  HoldfastPoolAlmostProvisioned: { [`holdfast_pool_available_bytes{${pool}}`]: '50x60' },
  HoldfastDamagedRecords: { [`holdfast_pool_damaged_records{${pool}}`]: '1x60' },
  HoldfastCallsFail: { [`holdfast_csi_calls_total{${target}, rpc="CreateVolume", code="INTERNAL"}`]: '0+1x60' },
  HoldfastCallHangs: { [`holdfast_csi_oldest_call_seconds{${target}}`]: '0+60x60' },
  HoldfastDiskSlow: { [`holdfast_disk_queue_waiting{${target}, queue="pool default"}`]: '3x60' },
  HoldfastServerDown: { [`holdfast_server_up{${target}, kind="nfs", server="nas"}`]: '0x60' },
  HoldfastLongFreeze: { [`holdfast_freeze_duration_seconds_bucket{${pool}, le="1"}`]: '0x60' },
};

describe('alerts', () => {
  test('each is raised by its sickness alone, and none on a node that is well', () => {
    const { status, said } = testRules(sicknessTests(healthy, sicknesses));
    assert.equal(status, 0, said);
  });

  test('each has its sickness here', () => {
    assert.deepEqual(alertNames, Object.keys(sicknesses));
  });
});
