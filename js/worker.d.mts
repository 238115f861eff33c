/** What worker.mjs offers: the calls of tenon.mjs, in a worker. */
import {
  Description,
  InputValue,
  Inputs,
  LoadOptions,
  MemoryUse,
  Module,
  OpenOptions,
  Result,
  RunOptions,
  Source,
  StreamOptions,
  SymbolInfo,
  TaskEvent,
  TensorData,
  TensorInfo,
} from "./tenon.mjs";

export class WorkerTenon {
  private constructor();
  static load(source?: Exclude<Module, URL>, options?: LoadOptions): Promise<WorkerTenon>;
  readonly version: string;
  readonly threads: number;
  memoryBytes(): Promise<number>;
  open(bytes: ArrayBuffer | ArrayBufferView, options?: OpenOptions & { transfer?: boolean }): Promise<WorkerProgram>;
  openFrom(source: Exclude<Source, Request | Response>, options?: StreamOptions): Promise<WorkerProgram>;
  terminate(): void;
}

export class WorkerProgram {
  private constructor();
  readonly name: string;
  readonly entries: string[];
  readonly inputs: TensorInfo[];
  readonly outputs: TensorInfo[];
  readonly symbols: SymbolInfo[];
  readonly states: {
    list(): Promise<TensorInfo[]>;
    get(name: string): Promise<TensorData>;
    set(name: string, value: InputValue): Promise<void>;
    reset(): Promise<void>;
  };
  run(inputs?: Inputs, options?: RunOptions & { signal?: AbortSignal }): Promise<Result[]>;
  events(): Promise<TaskEvent[]>;
  memory(): Promise<MemoryUse>;
  describe(): Promise<Description>;
  entry(name: string): Promise<WorkerProgram>;
  close(): Promise<void>;
}
