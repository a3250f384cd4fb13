export interface Goal {
  readonly name: string;
  readonly measured: string;
  readonly met: boolean;
}
