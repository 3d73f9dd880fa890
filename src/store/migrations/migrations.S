    .section .rodata
    .global pons_store_migration_0001_begin
    .global pons_store_migration_0001_end
    .global pons_store_migration_0002_begin
    .global pons_store_migration_0002_end
    .global pons_store_migration_0003_begin
    .global pons_store_migration_0003_end
    .global pons_store_migration_0004_begin
    .global pons_store_migration_0004_end
    .global pons_store_migration_0005_begin
    .global pons_store_migration_0005_end
    .global pons_store_migration_0006_begin
    .global pons_store_migration_0006_end
pons_store_migration_0001_begin:
    .incbin "0001_projects_and_keys.sql"
pons_store_migration_0001_end:
pons_store_migration_0002_begin:
    .incbin "0002_sandboxes.sql"
pons_store_migration_0002_end:
pons_store_migration_0003_begin:
    .incbin "0003_open_sandboxes.sql"
pons_store_migration_0003_end:
pons_store_migration_0004_begin:
    .incbin "0004_model_keys.sql"
pons_store_migration_0004_end:
pons_store_migration_0005_begin:
    .incbin "0005_sessions.sql"
pons_store_migration_0005_end:
pons_store_migration_0006_begin:
    .incbin "0006_sandbox_charges.sql"
pons_store_migration_0006_end:
    .section .note.GNU-stack, "", %progbits
