# servetune: from params.yaml and studies/ to reports/summary.html. The steps are in workflow/rules.
configfile: "params.yaml"


include: "workflow/rules/plan.smk"
include: "workflow/rules/engines.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/workloads.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "reports/summary.html",


onsuccess:
    shell("servetune show --plan {PLAN_FILE}")
