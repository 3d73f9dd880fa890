    .section .rodata
    .global pons_egress_services_begin
    .global pons_egress_services_end
    .global pons_egress_packages_begin
    .global pons_egress_packages_end
pons_egress_services_begin:
    .incbin PONS_EGRESS_SERVICES
pons_egress_services_end:
pons_egress_packages_begin:
    .incbin PONS_EGRESS_PACKAGES
pons_egress_packages_end:
    .section .note.GNU-stack, "", %progbits
