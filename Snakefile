# servetune: from params.yaml and studies/ to reports/summary.html. The steps are in workflow/rules.
include: "workflow/rules/snakemake.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/inputs.smk"
include: "workflow/rules/handlers.smk"
include: "workflow/rules/engines.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/workloads.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/tuning.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "reports/summary.html",
