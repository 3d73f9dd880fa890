    .section .rodata
    .global pons_vault_services_begin
    .global pons_vault_services_end
pons_vault_services_begin:
    .incbin PONS_VAULT_SERVICES
pons_vault_services_end:
    .section .note.GNU-stack, "", %progbits
