    .section .rodata
    .global pons_harness_recipes_begin
    .global pons_harness_recipes_end
pons_harness_recipes_begin:
    .incbin PONS_HARNESS_RECIPES
pons_harness_recipes_end:
    .global pons_harness_packages_begin
    .global pons_harness_packages_end
pons_harness_packages_begin:
    .incbin PONS_HARNESS_PACKAGES
pons_harness_packages_end:
    .section .note.GNU-stack, "", %progbits
